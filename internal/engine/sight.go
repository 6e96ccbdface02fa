package engine

import (
	"context"

	"github.com/kindwright/kindwright/watch"
)

// sight is how one try of a write sees the stored object.
//
// The first try takes the newest state that is known here, and asks the store for nothing. It may lack
// a change that another process has made. If the try commits, the store notices,
// because a commit expects the revision that the try has seen. Every other outcome, such as a
// refusal or a write that changes nothing, is checked with outdated before it is answered.
//
// The zero value is for a first try.
type sight struct {
	newest bool // the try reads the newest state

	served *Served // whose live view was read; nil if the outcome does not depend on the view
	key    string
	entry  *watch.Entry // nil: there was no object
}

// read returns the object of a storage key as the try sees it, or nil if there is none.
func (at *sight) read(ctx context.Context, e *Engine, s *Served, key string) (*watch.Entry, error) {
	if at.newest {
		return e.current(ctx, s, key)
	}
	if err := s.Cache.Err(); err != nil {
		return nil, e.readError(s.Kind, "get", err)
	}
	entry, _ := s.Cache.Newest(key)
	at.served, at.key, at.entry = s, key, entry
	if entry == nil {
		return nil, s.unreadable(key)
	}
	return entry, nil
}

// leave says that the store decides about the outcome from here on.
func (at *sight) leave() { at.served = nil }

// outdated reports whether the object has changed since the try has read it, so that the try has to
// be repeated with the newest state.
func (at *sight) outdated(ctx context.Context, e *Engine) (bool, error) {
	if at.served == nil {
		return false, nil
	}
	now, err := e.current(ctx, at.served, at.key)
	if err != nil {
		return false, err
	}
	if now == nil || at.entry == nil {
		return now != at.entry, nil
	}
	return now.Revision() != at.entry.Revision(), nil
}

// current reads the newest state of an object, or nil if there is none. It includes every write
// acknowledged before this call.
func (e *Engine) current(ctx context.Context, s *Served, key string) (*watch.Entry, error) {
	if err := s.Cache.Fresh(ctx); err != nil {
		return nil, e.readError(s.Kind, "get", err)
	}
	entry, ok := s.Cache.Get(key)
	if !ok {
		return nil, s.unreadable(key)
	}
	return entry, nil
}
