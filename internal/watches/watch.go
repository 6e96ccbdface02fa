package watches

import (
	"context"
	"iter"
	"sync/atomic"

	"github.com/kindwright/kindwright/storage"
)

// Watch is one running watch.
type Watch struct {
	Prefix string
	Ready  []storage.Batch // found, not yet yielded; changed only by its goroutine, and reused

	// Reached is guarded by the lock of the store, like the fields below. While the watch is parked,
	// they need it for writing; otherwise its goroutine changes them, with the lock held for reading.
	Reached storage.Revision
	parked  bool
	slot    int // its place in the index

	set  *Set
	wake chan struct{}    // capacity 1: somebody unparked it
	told storage.Revision // changed only by its goroutine, while it is not parked

	// asked is the highest revision that was asked for below its prefix: it must reach that. It is
	// stored with the lock held, for reading or writing.
	asked atomic.Uint64
}

// Watch yields the changes below prefix after a revision, as [storage.Backend] says. Watches of other
// prefixes cost a commit nothing.
func (s *Set) Watch(ctx context.Context, prefix string, after storage.Revision) iter.Seq2[storage.Batch, error] {
	return func(yield func(storage.Batch, error) bool) {
		w, err := s.subscribe(ctx, prefix, after)
		if err != nil {
			yield(storage.Batch{}, err)
			return
		}
		defer w.release()
		for err == nil {
			err = w.next(ctx)
			for _, b := range w.Ready {
				if err = ctx.Err(); err != nil {
					break
				}
				w.told = b.Revision
				if !yield(b, nil) {
					return
				}
			}
		}
		yield(storage.Batch{}, err)
	}
}

// subscribe registers a watch, or rejects one that starts outside the history. The current revision
// counts as asked for, so a watch that starts behind it reports progress when it has caught up.
func (s *Set) subscribe(ctx context.Context, prefix string, after storage.Revision) (*Watch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	compacted, err := s.log.Bounds()
	switch {
	case err != nil:
		return nil, err
	case after > *s.current:
		return nil, storage.ErrFutureRevision
	case after < compacted:
		return nil, storage.ErrCompacted
	}
	w := &Watch{Prefix: prefix, Reached: after, set: s, wake: make(chan struct{}, 1), told: after}
	w.asked.Store(uint64(*s.current))
	s.add(w)
	return w, nil
}

func (w *Watch) release() {
	w.set.mu.Lock()
	defer w.set.mu.Unlock()
	w.set.remove(w)
}

// next fills Ready with at least one batch, or returns the error that ends the watch.
func (w *Watch) next(ctx context.Context) error {
	clear(w.Ready)
	w.Ready = w.Ready[:0]
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		caughtUp, err := w.set.log.Read(w)
		if err != nil || len(w.Ready) > 0 {
			return err
		}
		if !caughtUp || !w.park() {
			continue
		}
		select {
		case <-w.wake:
		case <-w.set.done:
		case <-ctx.Done():
		}
	}
}

// Take takes the changes that the watch is about from the batches after Reached, at most so many of them,
// and moves Reached behind those. If these were all there are, it has caught up with the current revision.
// The lock is held.
func (w *Watch) Take(batches []storage.Batch, most int) (caughtUp bool) {
	end := *w.set.current
	if caughtUp = len(batches) <= most; !caughtUp {
		batches = batches[:most]
		end = batches[most-1].Revision
	}
	for _, b := range batches {
		if b = b.Above(w.Reached).Below(w.Prefix); len(b.Changes) > 0 {
			w.Ready = append(w.Ready, b)
		}
	}
	w.Reached = end
	return caughtUp
}

// park lets the watch sleep, unless something has happened since it read, or its reader is due
// progress.
func (w *Watch) park() (parked bool) {
	s := w.set
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.log.Bounds(); err != nil || w.Reached != *s.current {
		return false
	}
	if uint64(w.told) < w.asked.Load() {
		w.Ready = append(w.Ready, storage.Batch{Revision: w.Reached, Progress: true})
		return false
	}
	s.park(w)
	return true
}
