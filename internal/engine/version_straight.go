package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// straight reports whether the kind follows the rules of registry.Converter: objects are converted
// from the form of the record straight to the one that is asked for, and nothing is merged.
func (r *Kind) straight() bool { return r.base.Converter != nil }

// converterOf returns the Converter of the kind that r is a form of.
func converterOf(r *registry.Resource) registry.Converter {
	if r.Stored != nil {
		return r.Stored.Resource.Converter
	}
	return r.Converter
}

// straightTo converts objects to the form of r, those in other forms in one call. It neither fills
// in defaults nor rejects what the schema does not accept. The error is the one that a client gets.
func straightTo(ctx context.Context, r *registry.Resource, objects []registry.Tree) ([]registry.Tree, error) {
	version := r.APIVersion()
	out := slices.Clone(objects)
	var in []registry.Tree
	var at []int
	for i, t := range objects {
		if tree.Text(t, "apiVersion") != version {
			in, at = append(in, t), append(at, i)
		}
	}
	if len(in) == 0 {
		return out, nil
	}
	convert := converterOf(r)
	made, err := conversion(func(ctx context.Context, objects []registry.Tree) ([]registry.Tree, error) {
		return convert(ctx, version, objects)
	}).call(ctx, in)
	if err != nil {
		return nil, unconvertible(err)
	}
	for n, i := range at {
		if out[i], err = adoptStraight(r, made[n], in[n]); err != nil {
			return nil, unconvertible(err)
		}
	}
	return out, nil
}

// straightOne is straightTo for one object.
func straightOne(ctx context.Context, r *registry.Resource, t registry.Tree) (registry.Tree, error) {
	out, err := straightTo(ctx, r, []registry.Tree{t})
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// unconvertible is the answer to a request that needs a conversion which failed. The author of the
// Converter wrote the text for clients.
func unconvertible(err error) error {
	if known, ok := errors.AsType[*status.Error](err); ok {
		return known
	}
	return status.Internal(err).WithReason(meta.ReasonUnknown).WithMessage(err.Error())
}

// adoptStraight turns what a Converter returned for t into an object of form r.
func adoptStraight(r *registry.Resource, out, t registry.Tree) (registry.Tree, error) {
	out = tree.With(tree.With(out, r.APIVersion(), "apiVersion"), r.Names.Kind, "kind")
	if t["metadata"] == nil { // apply converts what is left of an object without the fields of some managers
		out = tree.Without(out, "metadata")
	} else {
		metadata, err := relabelled(t["metadata"], out["metadata"])
		if err != nil {
			return nil, err
		}
		out = tree.With(out, metadata, "metadata")
	}
	out, _ = r.Schema.Prune(out)
	if canonical, problems := r.Schema.Canonical(out); len(problems) == 0 {
		out = canonical
	}
	return out, nil
}

// relabelled returns metadata with the labels and the annotations that a Converter gave them.
func relabelled(metadata, converted any) (map[string]any, error) {
	have, _ := metadata.(map[string]any)
	made, ok := converted.(map[string]any)
	if !ok {
		return nil, errors.New("missing metadata in converted object")
	}
	for _, field := range [...]string{"labels", "annotations"} {
		texts, isMap := made[field].(map[string]any)
		if made[field] != nil && !isMap {
			return nil, fmt.Errorf("invalid metadata.%s of type %T in converted object", field, made[field])
		}
		for key, text := range texts {
			if _, ok := text.(string); !ok {
				return nil, fmt.Errorf("metadata.%s[%s] must be a string, but is %T in converted object", field, key, text)
			}
		}
		switch before, had := have[field]; {
		case len(texts) > 0 && !(had && json.Equal(before, made[field])):
			have = tree.With(have, made[field], field)
		case len(texts) == 0 && had:
			have = tree.Without(have, field)
		}
	}
	return have, nil
}

// A record of a straight kind is written in the stored form of the time. Its entry always says in
// which form it is, because another form may be the stored one later.

// refreshStraight is Served.refresh for a straight kind. A record is stale if its present form
// differs from it.
func (s *Served) refreshStraight(rec record) (*Kind, []byte, *staleRecord, error) {
	known := *s.records.known.Load()
	for _, form := range known {
		if form.fingerprint == rec.fingerprint && !form.unknown {
			return form, rec.object, nil, nil
		}
	}
	t, err := decodeObject(rec.object)
	if err != nil {
		return nil, nil, nil, err
	}
	if at := slices.IndexFunc(known, func(form *Kind) bool { return form.partial == rec.fingerprint && !form.unknown }); at >= 0 {
		out, err := json.AppendTree(make([]byte, 0, len(rec.object)+64), known[at].Schema.Default(t))
		return known[at], out, nil, err
	}
	form, err := s.records.form(t)
	if err != nil {
		if form, err = s.records.stray(s.stored.Kind, t); err != nil {
			return nil, nil, nil, err
		}
	}
	if form.unknown {
		return form, rec.object, nil, nil
	}
	t, _ = form.refresh(t)
	out, err := json.AppendTree(make([]byte, 0, len(rec.object)), t)
	if err != nil || bytes.Equal(out, rec.object) {
		return form, rec.object, nil, err
	}
	return form, out, &staleRecord{foreign: !form.sameForm(s.stored.Kind)}, nil
}

// stray makes a form of the version that a record is in, which the kind does not have any more. Such
// an object can be deleted and collected, and its metadata read. Nothing converts it.
func (k *records) stray(base *Kind, t registry.Tree) (*Kind, error) {
	gv, err := meta.ParseGroupVersion(tree.Text(t, "apiVersion"))
	if err != nil {
		return nil, err
	}
	r := *base.Resource
	r.Group, r.Version, r.Names.Kind = gv.Group, gv.Version, tree.Text(t, "kind")
	r.Stored, r.Converter = &registry.Conversion{Resource: base.Resource}, nil
	form := &Kind{Resource: &r, apiVersion: r.APIVersion(), base: base, unknown: true}
	k.learnStray(form)
	return form, nil
}

// learnStray adds a form, unless there is one with its name.
func (k *records) learnStray(form *Kind) {
	k.learning.Lock()
	defer k.learning.Unlock()
	if k.place(form) < 0 {
		next := append(slices.Clone(*k.known.Load()), form)
		k.known.Store(&next)
	}
}

// scanStraight is Served.scanForm for a straight kind. The fields are those that any form can be
// selected by, as the record has them.
func (s *Served) scanStraight(form *Kind, object []byte) (watch.Body, watch.Facts, error) {
	m, fields, err := json.ScanObject(object, s.stored.fields.paths)
	if err != nil {
		return watch.Body{}, watch.Facts{}, err
	}
	if !form.sameForm(s.stored.Kind) {
		s.records.foreign.Store(true)
	}
	facts := factsOf(&m)
	facts.Fields, facts.Form = fields, s.records.number(form)
	return bodyOf(object, &m), facts, nil
}

// familyFields are the fields that the objects of a straight kind can be selected by, in any of
// its forms.
type familyFields struct {
	names []string
	paths *json.Paths // nil if there are none
}

func newFamilyFields(forms []*Served) familyFields {
	var f familyFields
	for _, one := range forms {
		f.names = append(f.names, one.Kind.Selectable...)
	}
	slices.Sort(f.names)
	f.names = slices.Compact(f.names)
	f.paths = pathsOf(f.names)
	return f
}

// oldForms returns the stored object as its record has it, and in the form of the request.
func (w *write) oldForms(ctx context.Context) (err error) {
	if w.kind.straight() {
		if w.stored.old, err = keptTreeOf(w.entry, &w.engine.kept); err == nil {
			w.object.old, err = w.served.keptTreeOf(ctx, w.entry, &w.engine.kept)
		}
		return err
	}
	if w.stored.old, err = w.served.stored.keptTreeOf(ctx, w.entry, &w.engine.kept); err == nil {
		w.object.old, err = FromStored(ctx, w.kind.Resource, w.stored.old)
	}
	return err
}

// convertStraight computes what is stored under the rules of registry.Converter. Defaults of the
// stored form are not stored: readers fill them in, so that another stored form does not have them.
func (w *write) convertStraight(ctx context.Context) error {
	base := w.kind.base
	if w.entry != nil && w.storedForm() && json.Equal(w.object.new, w.object.old) {
		w.stored.new = w.stored.old
		return nil
	}
	t, err := straightOne(ctx, base.Resource, w.object.new)
	if err != nil {
		return err
	}
	w.stored.new = t
	if full := base.Schema.Default(t); !json.Equal(full, t) {
		w.full = full
	}
	return nil
}

// storedForm reports whether the record that a write found is in the form that is stored now.
func (w *write) storedForm() bool {
	form := w.served.records.formOf(w.entry)
	return form == nil || form.sameForm(w.kind.base)
}

// live returns the object as readers see the record of a write: the tree and its canonical JSON.
func (w *write) live() (registry.Tree, []byte, error) {
	if w.full == nil {
		return w.stored.new, w.encoded, nil
	}
	t := tree.With(w.full, w.stored.new["metadata"], "metadata")
	encoded, err := encode(t, len(w.encoded)+64)
	return t, encoded, err
}

// record returns the value to store.
func (w *write) record() []byte {
	if w.shared != nil {
		return w.engine.value(w.shared.form, w.shared.encoded)
	}
	base := w.kind.base
	fingerprint := base.fingerprint
	if w.full != nil {
		fingerprint = base.partial
	}
	base.recordOf(fingerprint, nil).appendHeader(w.value[:0])
	return w.value
}

// newEntry makes a live entry of the stored form.
func (w *write) newEntry(key string, rev storage.Revision, object []byte) (*watch.Entry, error) {
	if w.shared != nil {
		return w.served.entryIn(w.shared.form, key, rev, w.shared.encoded)
	}
	if !w.kind.straight() {
		return w.kind.base.newEntry(key, rev, object)
	}
	body, facts, err := w.served.scanStraight(w.kind.base, object)
	if err != nil {
		return nil, err
	}
	return watch.NewEntry(key, rev, body, facts), nil
}
