package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// recordFingerprint tells records of other versions, kinds and schemas from those that are written now. A record says itself
// which version and kind it is of; where its fingerprint is this one, nobody has to look.
func (r *Kind) recordFingerprint() uint64 {
	h := fnv.New64a()
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, r.Schema.Fingerprint()))
	_, _ = fmt.Fprintf(h, "%s %s", r.APIVersion(), r.Names.Kind) // writing to a hash does not fail
	return max(h.Sum64(), 1)
}

// records knows the forms in which the records of one resource may have been written: those it is served in, and those it was
// served in since the engine has started. A form keeps its place, which is what entries know it by.
type records struct {
	learning sync.Mutex
	known    atomic.Pointer[[]*Kind]
	foreign  atomic.Bool // some entry was made of a record in another form than the stored one
}

// learn adds a form, or puts it in the place of the one with its name, which it returns.
func (k *records) learn(r *Kind) (before *Kind) {
	k.learning.Lock()
	defer k.learning.Unlock()
	var next []*Kind
	if have := k.known.Load(); have != nil {
		next = slices.Clone(*have)
	}
	if at := k.place(r); at < 0 {
		next = append(next, r)
	} else {
		before, next[at] = next[at], r
	}
	k.known.Store(&next)
	return before
}

// place returns the place of a form, which another one with the same name may have now, and -1 if it has none.
func (k *records) place(r *Kind) int {
	have := k.known.Load()
	if have == nil {
		return -1
	}
	return slices.IndexFunc(*have, r.sameForm)
}

// sameForm tells whether two kinds describe one form, as a kind and its replacement do.
func (r *Kind) sameForm(o *Kind) bool { return r.GroupVersionKind() == o.GroupVersionKind() }

// copyOf returns what a fork starts with.
func (k *records) copyOf() *records {
	out := &records{}
	out.known.Store(k.known.Load())
	out.foreign.Store(k.foreign.Load())
	return out
}

// number returns what entries call a form that is not the stored one.
func (k *records) number(form *Kind) uint16 {
	return uint16(k.place(form) + 1) //nolint:gosec // nobody has so many versions
}

// formOf returns the form that the JSON of an entry is in; nil stands for the stored form.
func (k *records) formOf(e *watch.Entry) *Kind {
	if n := e.Form(); n > 0 {
		return (*k.known.Load())[n-1]
	}
	return nil
}

// form returns the form that a record says it was written in.
func (k *records) form(t registry.Tree) (*Kind, error) {
	version, kind := tree.Text(t, "apiVersion"), tree.Text(t, "kind")
	for _, r := range *k.known.Load() {
		if r.APIVersion() == version && r.Names.Kind == kind {
			return r, nil
		}
	}
	return nil, fmt.Errorf("the object %q was written as a %s of %s, from which %w", tree.NameOf(t), word(kind), word(version), errUnknownForm)
}

// decoder makes entries of stored records. A record keeps the version that it was written in: readers convert it when they
// need another. A record written under another schema of its version is brought to the present one in memory, at its own
// revision and without a write, so that a new default shows in every read (design rule 9). One that nothing is known of is an
// error, which names it: it is neither hidden nor taken for something else.
func (e *Engine) decoder(of *atomic.Pointer[Served]) func(storage.Record) (*watch.Entry, error) {
	return func(rec storage.Record) (*watch.Entry, error) {
		s := of.Load()
		d, err := s.decode(rec)
		if err == nil && !d.complete {
			d.facts.Fields, err = s.stored.Kind.fieldsOfOne(d.form, d.object)
		}
		if err != nil {
			return nil, err
		}
		return e.entryOf(s, &d), nil
	}
}

// pageDecoder is decoder for many records. Those that have to be converted for the sake of their fields are converted together.
func (e *Engine) pageDecoder(of *atomic.Pointer[Served]) func([]storage.Record) ([]*watch.Entry, error) {
	return func(page []storage.Record) ([]*watch.Entry, error) {
		s := of.Load()
		all := make([]decoded, len(page))
		missing := map[*Kind][]*decoded{}
		for i, rec := range page {
			d, err := s.decode(rec)
			if err != nil {
				return nil, err
			}
			if all[i] = d; !d.complete {
				missing[d.form] = append(missing[d.form], &all[i])
			}
		}
		for _, some := range missing {
			for part := range slices.Chunk(some, showMost) {
				if err := s.completeFields(part); err != nil {
					return nil, err
				}
			}
		}
		out := make([]*watch.Entry, len(all))
		for i := range all {
			out[i] = e.entryOf(s, &all[i])
		}
		return out, nil
	}
}

// decoded is what was read of a record.
type decoded struct {
	record   storage.Record
	form     *Kind
	object   []byte
	body     watch.Body
	facts    watch.Facts
	stale    bool // the record differs from what would be stored now
	complete bool // no field has to be read from the converted object
}

func (s *Served) decode(rec storage.Record) (decoded, error) {
	stored, err := parseRecord(rec.Value)
	if err != nil {
		return decoded{}, damaged(err)
	}
	if s.expiry != nil {
		s.expiry.note(rec.Key, rec.Revision, stored.written)
	}
	form, object, stale, err := s.refresh(stored)
	if err != nil {
		return decoded{}, damaged(err)
	}
	s.stale.note(rec.Key, rec.Revision, stale)
	d := decoded{record: rec, form: form, object: object, stale: stale != nil}
	if d.body, d.facts, d.complete, err = s.scanForm(form, object); err != nil {
		return d, damaged(err)
	}
	return d, nil
}

// damaged marks an error as one of the record itself, unless the record is in a form that the program does
// not know: that concerns the program, which should not start.
func damaged(err error) error {
	if errors.Is(err, errUnknownForm) {
		return err
	}
	return fmt.Errorf("%w: %w", storage.ErrUnreadable, err)
}

var errUnknownForm = errors.New("no conversion is known: give the kind that form, too, which need not be served")

// entryOf makes an entry of a decoded record of s. The next look of the migration finds the record if
// it is stale.
func (e *Engine) entryOf(s *Served, d *decoded) *watch.Entry {
	if d.stale && !s.Kind.straight() {
		e.migrations.note(s.Kind.StorageName)
	}
	if e.texts == nil {
		return watch.NewEntry(d.record.Key, d.record.Revision, d.body, d.facts)
	}
	return e.texts.NewEntry(d.record.Key, d.record.Revision, d.body, d.facts)
}

// completeFields reads the selectable fields of objects in one form from what they are converted to.
func (s *Served) completeFields(some []*decoded) error {
	objects := make([][]byte, len(some))
	for i, d := range some {
		objects[i] = d.object
	}
	values, err := s.stored.Kind.convertedFields(some[0].form, objects)
	for i := range values {
		some[i].facts.Fields = values[i]
	}
	return err
}

// refresh brings a record to the present schema of the form it was written in, and tells how far it was from what would be
// stored now. It converts nothing.
func (s *Served) refresh(rec record) (*Kind, []byte, *staleRecord, error) {
	if s.Kind.straight() {
		return s.refreshStraight(rec)
	}
	if rec.fingerprint == s.Kind.fingerprint {
		return s.Kind, rec.object, nil, nil
	}
	for _, form := range *s.records.known.Load() {
		if form.fingerprint == rec.fingerprint {
			return form, rec.object, &staleRecord{foreign: true}, nil
		}
	}
	t, err := decodeObject(rec.object)
	if err != nil {
		return nil, nil, nil, err
	}
	form, err := s.records.form(t)
	if err != nil {
		return nil, nil, nil, err
	}
	t, unknown := form.refresh(t)
	out, err := json.AppendTree(make([]byte, 0, len(rec.object)), t)
	stale := &staleRecord{
		foreign: form.GroupVersionKind() != s.Kind.GroupVersionKind(),
		lossy:   len(unknown) > 0 && !bytes.Equal(out, rec.object),
	}
	return form, out, stale, err
}

// scan is Kind.scan for an object in any known form. The selectable fields are those of the stored form.
func (s *Served) scan(form *Kind, object []byte) (watch.Body, watch.Facts, error) {
	body, facts, complete, err := s.scanForm(form, object)
	if err != nil || complete {
		return body, facts, err
	}
	facts.Fields, err = s.stored.Kind.fieldsOfOne(form, object)
	return body, facts, err
}

// scanForm is scan without the conversion. The fields are not complete where they need one.
func (s *Served) scanForm(form *Kind, object []byte) (body watch.Body, facts watch.Facts, complete bool, err error) {
	if form.straight() {
		body, facts, err = s.scanStraight(form, object)
		return body, facts, true, err
	}
	body, facts, err = form.scan(object)
	if err != nil || form.sameForm(s.stored.Kind) {
		return body, facts, true, err
	}
	s.records.foreign.Store(true)
	facts.Form = s.records.number(form)
	facts.Fields, complete = s.stored.Kind.fieldsOf(form, facts.Fields)
	return body, facts, complete, nil
}

// fieldsOf returns the selectable fields of an object in another form, of which it has those of that form. Where these do not
// say all, the object has to be converted.
func (r *Kind) fieldsOf(form *Kind, values []string) (out []string, complete bool) {
	if len(r.Selectable) == 0 {
		return nil, true
	}
	out = make([]string, len(r.Selectable))
	for i, field := range r.Selectable {
		at := slices.IndexFunc(form.Selectable, func(name string) bool {
			of, mapped := form.Stored.Fields[name]
			return of == field || !mapped && name == field
		})
		if at < 0 || r.defaults(field) {
			return nil, false
		}
		out[i] = values[at]
	}
	return out, true
}

// defaults tells whether the schema may give a field a value that the object lacks.
func (r *Kind) defaults(field string) bool {
	s := r.Schema
	for name := range strings.SplitSeq(field, ".") {
		below, ok := s.Property(name)
		if !ok || below.DefaultValue != nil {
			return ok
		}
		s = below
	}
	return false
}

// fieldsTime bounds a conversion that the live view needs.
const fieldsTime = 30 * time.Second

// fieldsOfOne is convertedFields for one object.
func (r *Kind) fieldsOfOne(form *Kind, object []byte) ([]string, error) {
	values, err := r.convertedFields(form, [][]byte{object})
	if err != nil {
		return nil, err
	}
	return values[0], nil
}

// convertedFields converts objects and returns the selectable fields of each.
func (r *Kind) convertedFields(form *Kind, objects [][]byte) ([][]string, error) {
	trees := make([]registry.Tree, len(objects))
	for i, object := range objects {
		t, err := decodeObject(object)
		if err != nil {
			return nil, err
		}
		trees[i] = t
	}
	ctx, cancel := context.WithTimeout(context.Background(), fieldsTime)
	defer cancel()
	converted, err := form.recordsToStored(ctx, trees)
	if err != nil {
		return nil, causeOf(err)
	}
	out := make([][]string, len(converted))
	for i, t := range converted {
		out[i] = r.fieldValues(t)
	}
	return out, nil
}

// modernise brings a record to the present version and schema, and tells how far it was from them.
func (s *Served) modernise(ctx context.Context, rec record) ([]byte, *staleRecord, error) {
	form, object, stale, err := s.refresh(rec)
	if err != nil || stale == nil || !stale.foreign {
		return object, stale, err
	}
	written, err := decodeObject(object)
	if err != nil {
		return nil, nil, err
	}
	converted, err := form.recordsToStored(ctx, []registry.Tree{written})
	if err != nil {
		return nil, nil, causeOf(err)
	}
	back, err := FromStored(ctx, form.Resource, converted[0])
	c := comparison{}
	c.object(tree.Without(written, "metadata"), tree.Without(back, "metadata"), "")
	stale.lossy = stale.lossy || err != nil || c != comparison{}
	out, err := json.AppendTree(make([]byte, 0, len(object)), converted[0])
	return out, stale, err
}

// causeOf is what a failed conversion has to say beside what a client may know.
func causeOf(err error) error {
	if e, ok := err.(interface{ Unwrap() error }); ok && e.Unwrap() != nil {
		return e.Unwrap()
	}
	return err
}

// refresh brings an object that was stored in the form of r to r's present schema, and returns the paths that this knows no more.
// What the schema no longer accepts is kept as it is: an old object must stay readable, or nobody could mend it.
func (r *Kind) refresh(t registry.Tree) (registry.Tree, []string) {
	t, unknown := r.Schema.Prune(t)
	t = r.Schema.Default(t)
	if canonical, problems := r.Schema.Canonical(t); len(problems) == 0 {
		t = canonical
	}
	return t, unknown
}
