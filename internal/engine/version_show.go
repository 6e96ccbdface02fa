package engine

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// Show returns an object of the live view or of its log in the form of s: the entry itself, if that is the form it was written
// in. Converted entries are shared by all readers, within the budget of all encodings.
func (s *Served) Show(ctx context.Context, e *watch.Entry) (*watch.Entry, error) {
	if s.shows(e) {
		return e, nil
	}
	if s.Kind.straight() {
		out, err := s.together(ctx, []*watch.Entry{e}, true)
		if err != nil {
			return nil, err
		}
		return out[0], nil
	}
	v, err := s.scope.make(s.scope.key(e, converted), func() (encoded, error) {
		out, err := s.convert(ctx, e)
		return encoded{entry: out}, err
	})
	return v.entry, err
}

// ShowAll is Show for a caller that keeps what is made of the entries, and not the entries. Objects of one form are converted
// in one call. Where an object cannot be converted, ShowAll returns those before it and the error.
func (s *Served) ShowAll(ctx context.Context, entries []*watch.Entry) ([]*watch.Entry, error) {
	if !s.Converts() || !slices.ContainsFunc(entries, func(e *watch.Entry) bool { return !s.shows(e) }) {
		return entries, nil
	}
	if s.Kind.straight() { // a Converter says what is wrong, and asking it for each object may take long
		return s.together(ctx, entries, false)
	}
	out, err := s.convertAll(ctx, entries)
	if err == nil || ctx.Err() != nil {
		return out, err
	}
	out = make([]*watch.Entry, 0, len(entries))
	for _, e := range entries { // one by one, to find which object it is
		one, err := s.convert(ctx, e)
		if err != nil {
			return out, err
		}
		out = append(out, one)
	}
	return out, nil
}

// showMost is how many objects a list converts in one call.
const showMost = 128

// showEach makes a walk over entries one over what Show returns. It converts those together that are not kept.
func (s *Served) showEach(ctx context.Context, entries iter.Seq2[*watch.Entry, error]) iter.Seq2[*watch.Entry, error] {
	return func(yield func(*watch.Entry, error) bool) {
		var batch []*watch.Entry
		flush := func() bool {
			shown, err := s.showKept(ctx, batch)
			batch = batch[:0]
			for _, e := range shown {
				if !yield(e, nil) {
					return false
				}
			}
			return err == nil || yield(nil, err) && false
		}
		for entry, err := range entries {
			if err != nil {
				if flush() {
					yield(nil, err)
				}
				return
			}
			if batch = append(batch, entry); len(batch) == showMost && !flush() {
				return
			}
		}
		flush()
	}
}

// showKept is ShowAll with the encodings that are kept, and keeps what is asked for again.
func (s *Served) showKept(ctx context.Context, entries []*watch.Entry) ([]*watch.Entry, error) {
	if s.Kind.straight() {
		return s.together(ctx, entries, false)
	}
	out := slices.Clone(entries)
	var missing []*watch.Entry
	var at []int
	again := map[int]bool{}
	for i, e := range entries {
		if s.shows(e) {
			continue
		}
		v, ok, twice := s.scope.find(s.scope.key(e, converted))
		if ok {
			out[i] = v.entry
			continue
		}
		missing, at, again[i] = append(missing, e), append(at, i), twice
	}
	made, err := s.ShowAll(ctx, missing)
	for n, e := range made {
		i := at[n]
		if out[i] = e; again[i] {
			s.scope.add(s.scope.key(entries[i], converted), encoded{entry: e})
		}
	}
	if err != nil {
		out = out[:at[len(made)]]
	}
	return out, err
}

// shows tells whether an entry is in the form of s as it is.
func (s *Served) shows(e *watch.Entry) bool {
	if !s.records.foreign.Load() && !s.Kind.straight() {
		return s.Kind.Stored == nil
	}
	if form := s.records.formOf(e); form != nil {
		return form.sameForm(s.Kind) // it may have been replaced since the request began
	}
	return s.Kind.Stored == nil
}

// Converts tells whether objects may have to be converted to be shown in the form of s.
func (s *Served) Converts() bool { return s.Kind.Stored != nil || s.records.foreign.Load() }

// convert is ShowAll for one entry.
func (s *Served) convert(ctx context.Context, e *watch.Entry) (*watch.Entry, error) {
	out, err := s.convertAll(ctx, []*watch.Entry{e})
	if err != nil {
		if ctx.Err() == nil && !s.Kind.straight() {
			s.broken.note(e, err)
		}
		return nil, err
	}
	return out[0], nil
}

// convertAll brings entries to the form of s: all of them, or none.
func (s *Served) convertAll(ctx context.Context, entries []*watch.Entry) ([]*watch.Entry, error) {
	out := slices.Clone(entries)
	var trees []registry.Tree
	var at []int
	for i, e := range entries {
		if s.shows(e) {
			continue
		}
		body := e.Body()
		t, err := decodeObject(append(append(make([]byte, 0, e.Length()), body.Prefix...), body.Suffix...))
		if err != nil {
			return nil, status.Internal(fmt.Errorf("decode %s: %w", e.Key(), err))
		}
		trees, at = append(trees, t), append(at, i)
	}
	if err := s.bring(ctx, trees, func(i int) *Kind { return s.records.formOf(entries[at[i]]) }); err != nil {
		return nil, err
	}
	for n, t := range trees {
		e := entries[at[n]]
		object, err := json.AppendTree(make([]byte, 0, e.Length()), t)
		if err != nil {
			return nil, status.Internal(err)
		}
		m, err := json.ScanMetadata(object)
		if err != nil {
			return nil, status.Internal(err)
		}
		facts := e.Facts()
		facts.Form = 0 // only what comes from a record has another
		if s.Kind.straight() {
			facts.Form = s.records.number(s.Kind)
		}
		out[at[n]] = watch.NewEntry(e.Key(), e.Revision(), bodyOf(object, &m), facts)
	}
	return out, nil
}

// bring replaces objects by what they are in the form of s. written says which form each is in, nil for the stored one. Those
// of one form are converted together: to the stored form, and from there to that of s.
func (s *Served) bring(ctx context.Context, trees []registry.Tree, written func(i int) *Kind) error {
	if s.Kind.straight() {
		for i := range trees {
			if form := written(i); form != nil && form.unknown {
				return unconvertible(fmt.Errorf("request to convert CR from an invalid group/version: %s", form.APIVersion()))
			}
		}
		out, err := straightTo(ctx, s.Kind.Resource, trees)
		copy(trees, out)
		return err
	}
	forms := map[*Kind][]int{}
	var onward []int
	for i := range trees {
		form := written(i)
		if form != nil && form.sameForm(s.Kind) {
			continue
		}
		if form != nil {
			forms[form] = append(forms[form], i)
		}
		onward = append(onward, i)
	}
	for form, some := range forms {
		if err := replaceSome(trees, some, func(in []registry.Tree) ([]registry.Tree, error) { return form.recordsToStored(ctx, in) }); err != nil {
			return err
		}
	}
	if s.Kind.Stored == nil || len(onward) == 0 {
		return nil
	}
	return replaceSome(trees, onward, func(in []registry.Tree) ([]registry.Tree, error) { return allFromStored(ctx, s.Kind.Resource, in) })
}

// replaceSome replaces the trees at some places by what convert makes of them.
func replaceSome(trees []registry.Tree, places []int, convert func([]registry.Tree) ([]registry.Tree, error)) error {
	in := make([]registry.Tree, len(places))
	for n, i := range places {
		in[n] = trees[i]
	}
	out, err := convert(in)
	if err != nil {
		return err
	}
	for n, i := range places {
		trees[i] = out[n]
	}
	return nil
}

// treeOf decodes a live object, with its resourceVersion, in the form of s.
func (s *Served) treeOf(ctx context.Context, e *watch.Entry) (registry.Tree, error) {
	return s.keptTreeOf(ctx, e, nil)
}

// keptTreeOf is treeOf that shares the fields of managers with others.
func (s *Served) keptTreeOf(ctx context.Context, e *watch.Entry, kept *json.Kept) (registry.Tree, error) {
	t, err := keptTreeOf(e, kept)
	if err != nil || s.shows(e) {
		return t, err
	}
	one := []registry.Tree{t}
	err = s.bring(ctx, one, func(int) *Kind { return s.records.formOf(e) })
	return one[0], err
}

// broken remembers objects that could not be converted, so that the next list which would come to one says so before it sends
// anything.
type broken struct {
	mu    sync.Mutex
	known map[string]brokenObject
}

type brokenObject struct {
	rev storage.Revision
	err error
}

// maxBroken bounds how many are remembered; any of them ends a list.
const maxBroken = 64

func (b *broken) note(e *watch.Entry, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == nil {
		b.known = map[string]brokenObject{}
	}
	if _, ok := b.known[e.Key()]; ok || len(b.known) < maxBroken {
		b.known[e.Key()] = brokenObject{e.Revision(), err}
	}
}

// among returns why an object cannot be converted that a list is about to come to, nil if there is none. The list is of what
// comes after one key, up to another, or to its end if that is "".
func (b *broken) among(found selection, after, last string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, o := range b.known {
		if !strings.HasPrefix(key, found.filter.KeyPrefix(found.storageName)) || key <= after || last != "" && key > last {
			continue
		}
		known := false
		for e := range found.snap.Ascend(key, "") {
			known = e.Revision() <= o.rev
			if e.Revision() == o.rev && found.filter.Matches(e) {
				return o.err
			}
		}
		if !known {
			delete(b.known, key)
		}
	}
	return nil
}

// storedFields rewrites a field selector for a form that is not stored in terms of the stored form.
func (s *Served) storedFields(f meta.FieldSelector) (meta.FieldSelector, error) {
	requirements := f.Requirements()
	for i := range requirements {
		if name, ok := s.Kind.Stored.Fields[requirements[i].Field]; ok {
			requirements[i].Field = name
		}
	}
	out, err := meta.NewFieldSelector(requirements...)
	if err != nil {
		return out, status.Internal(err)
	}
	return out, nil
}

// shown makes the result of a write one in the form the write came in.
func (s *Served) shown(ctx context.Context, r *registry.Result, err error) (*registry.Result, error) {
	if err != nil || r.Entry == nil || s.shows(r.Entry) {
		return r, err
	}
	out := *r
	out.Entry, err = s.convert(ctx, r.Entry)
	return &out, err
}
