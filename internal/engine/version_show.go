package engine

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// Show returns an object of the live view or of its log in the form of s: the entry itself, unless s is another form of what
// is stored. Converted entries are shared by all readers, within the budget of all shapes.
func (s *Served) Show(ctx context.Context, e *watch.Entry) (*watch.Entry, error) {
	if s.Kind.Stored == nil {
		return e, nil
	}
	v, err := s.shelf.get(e, converted, func() (shapeValue, error) {
		out, err := s.convert(ctx, e)
		return shapeValue{entry: out}, err
	})
	return v.entry, err
}

// ShowOnce is Show for who keeps what is made of the entry, and not the entry.
func (s *Served) ShowOnce(ctx context.Context, e *watch.Entry) (*watch.Entry, error) {
	if s.Kind.Stored == nil {
		return e, nil
	}
	return s.convert(ctx, e)
}

func (s *Served) convert(ctx context.Context, e *watch.Entry) (*watch.Entry, error) {
	body := e.Body()
	t, err := decodeObject(append(append(make([]byte, 0, e.Length()), body.Prefix...), body.Suffix...))
	if err != nil {
		return nil, status.Internal(fmt.Errorf("decode %s: %w", e.Key(), err))
	}
	if t, err = s.Kind.FromStored(ctx, t); err != nil {
		s.broken.note(e, err)
		return nil, err
	}
	object, err := json.AppendTree(make([]byte, 0, e.Length()), t)
	if err != nil {
		return nil, status.Internal(err)
	}
	m, err := json.ScanMetadata(object)
	if err != nil {
		return nil, status.Internal(err)
	}
	return watch.NewEntry(e.Key(), e.Revision(), bodyOf(object, &m), e.Facts()), nil
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

// storedFields rewrites a field selector in terms of the stored form.
func (s *Served) storedFields(f meta.FieldSelector) (meta.FieldSelector, error) {
	if s.Kind.Stored == nil || f.Empty() {
		return f, nil
	}
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
	if err != nil || r.Entry == nil || s.Kind.Stored == nil {
		return r, err
	}
	out := *r
	out.Entry, err = s.convert(ctx, r.Entry)
	return &out, err
}
