package storagetest

import (
	"context"
	"fmt"
	"sync"

	"github.com/kindwright/kindwright/storage"
)

// trialWatch is a watch that resumes where it was when the store was out of reach.
type trialWatch struct {
	*trial
	handle int

	mu       sync.Mutex
	order    watchOrder
	batches  []storage.Batch // without progress
	received []int64         // when
	resumed  int
	moved    chan struct{} // closed with each batch
	ended    bool
}

func (w *trialWatch) String() string {
	return fmt.Sprintf("the watch of %q on handle %d", w.order.prefix, w.handle)
}

func (w *trialWatch) run(ctx context.Context, b storage.Backend) {
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ended = true
		close(w.moved)
	}()
	for {
		err := w.follow(ctx, b)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil || !outOfReach(err):
			w.anomaly("%v ended at %d: %v", w, w.position(), err)
			return
		}
		w.resumed++
		pause()
	}
}

// follow reads one watch until it ends.
func (w *trialWatch) follow(ctx context.Context, b storage.Backend) error {
	var end error
	for batch, err := range b.Watch(ctx, w.order.prefix, w.position()) {
		if err != nil {
			end = err
			continue
		}
		if err := w.take(batch); err != nil {
			w.anomaly("%v: %v", w, err)
			return err
		}
	}
	return end
}

func (w *trialWatch) take(batch storage.Batch) error {
	at := w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.order.accept(batch); err != nil {
		return err
	}
	if !batch.Progress {
		w.batches = append(w.batches, batch)
		w.received = append(w.received, at)
	}
	close(w.moved)
	w.moved = make(chan struct{})
	return nil
}

// position is the revision up to which the watch has given everything.
func (w *trialWatch) position() storage.Revision {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.order.told
}

// reach waits until the watch has reached a revision. It returns false if it does not.
func (w *trialWatch) reach(rev storage.Revision) bool {
	for {
		w.mu.Lock()
		told, moved, ended := w.order.told, w.moved, w.ended
		w.mu.Unlock()
		switch {
		case told >= rev:
			return true
		case ended:
			return false
		}
		select {
		case <-moved:
		case <-w.ctx.Done():
			return false
		}
	}
}
