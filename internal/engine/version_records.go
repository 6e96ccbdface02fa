package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"sync/atomic"

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
// served in since the engine has started.
type records struct {
	known atomic.Pointer[[]*Kind]
}

// learn adds a form. It is called by one goroutine at a time.
func (k *records) learn(r *Kind) {
	var next []*Kind
	if have := k.known.Load(); have != nil {
		next = slices.DeleteFunc(slices.Clone(*have), func(o *Kind) bool { return o.GroupVersionKind() == r.GroupVersionKind() })
	}
	next = append(next, r)
	k.known.Store(&next)
}

// copyOf returns what a fork starts with.
func (k *records) copyOf() *records {
	out := &records{}
	out.known.Store(k.known.Load())
	return out
}

// form returns the form that a record says it was written in.
func (k *records) form(t registry.Tree) (*Kind, error) {
	version, kind := tree.Text(t, "apiVersion"), tree.Text(t, "kind")
	for _, r := range *k.known.Load() {
		if r.APIVersion() == version && r.Names.Kind == kind {
			return r, nil
		}
	}
	return nil, fmt.Errorf("the object %q was written as a %s of %s, from which no conversion is known: give the kind that form, too, which need not be served",
		tree.NameOf(t), word(kind), word(version))
}

// decoder makes entries of stored records. A record written under another schema, or in another version, is brought to the
// present one in memory, at its own revision and without a write, so that a new default shows in every read (design rule 9). One
// that nothing is known of is an error, which names it: it is neither hidden nor taken for something else.
func (e *Engine) decoder(s *Served) func(storage.Record) (*watch.Entry, error) {
	want := s.Kind.fingerprint
	return func(rec storage.Record) (*watch.Entry, error) {
		stored, err := parseRecord(rec.Value)
		if err != nil {
			return nil, err
		}
		if s.expiry != nil {
			s.expiry.note(rec.Key, rec.Revision, stored.written)
		}
		object := stored.object
		var stale *staleRecord
		if stored.fingerprint != want {
			if object, stale, err = s.modernise(context.Background(), object); err != nil {
				return nil, err
			}
		}
		s.stale.note(rec.Key, rec.Revision, stale)
		if e.texts == nil {
			return s.Kind.newEntry(rec.Key, rec.Revision, object)
		}
		body, facts, err := s.Kind.scan(object)
		if err != nil {
			return nil, err
		}
		return e.texts.NewEntry(rec.Key, rec.Revision, body, facts), nil
	}
}

// modernise brings a stored object to the present version and schema, and tells how far it was from them.
func (s *Served) modernise(ctx context.Context, object []byte) ([]byte, *staleRecord, error) {
	t, err := decodeObject(object)
	if err != nil {
		return nil, nil, err
	}
	form, err := s.records.form(t)
	if err != nil {
		return nil, nil, err
	}
	t, unknown := form.refresh(t)
	stale := &staleRecord{foreign: form.GroupVersionKind() != s.Kind.GroupVersionKind(), lossy: len(unknown) > 0}
	if stale.foreign {
		written := t
		if t, err = form.ToStored(ctx, written); err != nil {
			return nil, nil, causeOf(err)
		}
		t = s.Kind.Schema.Default(t)
		back, err := form.FromStored(ctx, t)
		c := comparison{}
		c.object(tree.Without(written, "metadata"), tree.Without(back, "metadata"), "")
		stale.lossy = stale.lossy || err != nil || c != comparison{}
	}
	out, err := json.AppendTree(make([]byte, 0, len(object)), t)
	if err == nil && bytes.Equal(out, object) {
		stale.lossy = false
	}
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
