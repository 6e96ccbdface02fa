package engine

import (
	"context"
	"slices"
	"sync"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/watch"
)

// flights are the conversions of a straight kind in progress. A thousand watchers that wake up
// together wait for one call of the Converter.
type flights struct {
	mu    sync.Mutex
	going map[encodingKey]*flight
}

// flight is the conversion of one object.
type flight struct {
	done  chan struct{} // closed once the rest is set
	entry *watch.Entry
	err   error
	left  bool // the request that had begun it has ended
}

// together returns entries of a straight kind in the form of s. What nobody converts already is
// converted in one call. always keeps the results; otherwise those are kept that were asked for
// before.
func (s *Served) together(ctx context.Context, entries []*watch.Entry, always bool) ([]*watch.Entry, error) {
	out := slices.Clone(entries)
	for {
		mine, theirs := s.claim(out)
		if err := s.land(ctx, out, mine, always); err != nil {
			return nil, err
		}
		again := false
		for i, f := range theirs {
			select {
			case <-f.done:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			switch {
			case f.err == nil:
				out[i] = f.entry
			case f.left:
				again = true
			default:
				return nil, f.err
			}
		}
		if !again {
			return out, nil
		}
	}
}

// claimed is a conversion that the caller of claim makes.
type claimed struct {
	*flight
	at    int // in the entries
	key   encodingKey
	again bool // it was asked for before
}

// claim replaces entries that are known in the form of s, and returns what is to be converted: by the
// caller, and by others, by the place of the entry.
func (s *Served) claim(entries []*watch.Entry) (mine []claimed, theirs map[int]*flight) {
	s.flights.mu.Lock()
	defer s.flights.mu.Unlock()
	for i, e := range entries {
		if s.shows(e) {
			continue
		}
		key := s.scope.key(e, converted)
		v, kept, again := s.scope.find(key)
		if kept {
			entries[i] = v.entry
			continue
		}
		if f := s.flights.going[key]; f != nil {
			if theirs == nil {
				theirs = map[int]*flight{}
			}
			theirs[i] = f
			continue
		}
		if s.flights.going == nil {
			s.flights.going = map[encodingKey]*flight{}
		}
		f := &flight{done: make(chan struct{})}
		s.flights.going[key] = f
		mine = append(mine, claimed{f, i, key, again})
	}
	return mine, theirs
}

// land converts what was claimed, and tells those who wait for it.
func (s *Served) land(ctx context.Context, entries []*watch.Entry, mine []claimed, always bool) error {
	if len(mine) == 0 {
		return nil
	}
	in := make([]*watch.Entry, len(mine))
	for n, c := range mine {
		in[n] = entries[c.at]
		c.left = true // until it is known better, as after a panic
		c.err = context.Canceled
	}
	defer func() {
		s.flights.mu.Lock()
		defer s.flights.mu.Unlock()
		for _, c := range mine {
			delete(s.flights.going, c.key)
			close(c.done)
		}
	}()
	made, err := s.convertAll(ctx, in)
	for n, c := range mine {
		if c.err, c.left = err, err != nil && ctx.Err() != nil; err != nil {
			continue
		}
		c.entry = made[n]
		entries[c.at] = made[n]
		if always || c.again {
			s.scope.add(c.key, encoded{entry: made[n]})
		}
	}
	return err
}

// ShowEvents brings the objects of events to the form of s, those of a straight kind in one call of
// the Converter. Events of other kinds stay as they are, for Show.
func (s *Served) ShowEvents(ctx context.Context, events []watch.Event) error {
	if !s.Kind.straight() || !s.Converts() {
		return nil
	}
	var entries []*watch.Entry
	var at []int
	for i := range events {
		if e := events[i].Entry; events[i].Type != meta.Bookmark && e != nil && !s.shows(e) {
			entries, at = append(entries, e), append(at, i)
		}
	}
	shown, err := s.together(ctx, entries, true)
	if err != nil {
		return err
	}
	for n, i := range at {
		events[i].Entry = shown[n]
	}
	return nil
}
