package storagetest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

// follower runs a watch in its own goroutine, as a server does, so it sleeps and wakes while the
// case continues. Its methods belong to the case's goroutine.
type follower struct {
	scene   *scene
	order   watchOrder
	batches chan storage.Batch // closed when the watch has ended
	end     error              // why, once batches is closed
	cancel  context.CancelFunc
}

// follow starts a watch that ends with the case.
func (s *scene) follow(prefix string, after storage.Revision) *follower {
	ctx, cancel := context.WithCancel(s.ctx)
	f := &follower{
		scene:   s,
		order:   watchOrder{prefix: prefix, told: after},
		batches: make(chan storage.Batch),
		cancel:  cancel,
	}
	s.followers = append(s.followers, f)
	go f.run(ctx, s.Watch(ctx, prefix, after))
	return f
}

func (f *follower) run(ctx context.Context, watch func(func(storage.Batch, error) bool)) {
	defer close(f.batches)
	for batch, err := range watch {
		if err != nil {
			f.end = err
			continue // it must end without help now
		}
		if f.end != nil {
			f.scene.Errorf("watch %q went on after its error", f.order.prefix)
			return
		}
		select {
		case f.batches <- batch:
		case <-ctx.Done(): // the case has stopped reading; the watch must notice too
		}
	}
}

// next waits for the next batch, progress included.
func (f *follower) next() storage.Batch {
	f.scene.Helper()
	batch, ok := f.receive()
	if !ok { // f.end may only be read now
		f.scene.Fatalf("watch %q ended having reached %d: %v", f.order.prefix, f.order.told, f.end)
	}
	require.NoError(f.scene, f.order.accept(batch))
	return batch
}

// until reads until the watch has reached rev, a revision that Revision must have returned before.
// It returns the batches without progress.
func (f *follower) until(rev storage.Revision) []storage.Batch {
	f.scene.Helper()
	f.scene.current() // watches must reach its answer
	var batches []storage.Batch
	for f.order.told < rev {
		if batch := f.next(); !batch.Progress {
			batches = append(batches, batch)
		}
	}
	return batches
}

// ended waits for the end, skipping batches that were under way, and returns the watch's error.
func (f *follower) ended() error {
	f.scene.Helper()
	for batch, ok := f.receive(); ok; batch, ok = f.receive() {
		require.NoError(f.scene, f.order.accept(batch))
	}
	require.Error(f.scene, f.end, "watch %q ended without saying why", f.order.prefix)
	return f.end
}

// receive waits for the next batch of the watch. The scene's context ends a watch that yields
// nothing. A watch that ignores the context fails the test here.
func (f *follower) receive() (batch storage.Batch, ok bool) {
	f.scene.Helper()
	late := time.NewTimer(2 * f.scene.timeout)
	defer late.Stop()
	select {
	case batch, ok = <-f.batches:
	case <-late.C:
		f.scene.Fatalf("watch %q gives nothing and does not end with its context", f.order.prefix)
	}
	return batch, ok
}

// stop ends the watch and waits for its goroutine.
func (f *follower) stop() {
	f.cancel()
	for _, running := f.receive(); running; _, running = f.receive() {
	}
}
