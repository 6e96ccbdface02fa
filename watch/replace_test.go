package watch_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/watch"
)

// Callers that still hold a view are answered by the one that takes its place, at whatever moment
// the swap happens.
func TestAViewIsAskedWhileItIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.cache
		done := make(chan struct{})
		var asking sync.WaitGroup
		defer asking.Wait()
		ask := func(what string, question func() error) {
			asking.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
					}
					if err := question(); err != nil {
						t.Errorf("%s: %v", what, err)
						return
					}
				}
			})
		}
		held := func(c *watch.Cursor, err error) error {
			if err == nil {
				c.Close()
			}
			return err
		}
		ask("watch", func() error { return held(first.Watch(t.Context(), watch.WatchRequest{})) })
		ask("watch from a snapshot", func() error { return held(first.WatchFromSnapshot(first.Snapshot(), watch.Filter{})) })
		ask("wait", func() error { return first.Fresh(t.Context()) })
		ask("state", first.Err)
		defer close(done)
		for range 300 {
			next, err := w.dispatcher.Replace(t.Context(), config("widgets"))
			require.NoError(t, err)
			next.Swap()
		}
	})
}

// What a view was told of commits that the watch has not brought holds for the view that takes its
// place.
func TestAViewThatTakesThePlaceOfAnotherAwaitsTheSameCommits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		first, ahead := w.cache, w.cache.Revision()+1
		next, err := w.dispatcher.Replace(t.Context(), config("widgets"))
		require.NoError(t, err)
		first.Stored(ahead)
		next.Swap()
		arrived := make(chan struct{})
		go func() {
			next.Cache().AwaitOwn(t.Context())
			close(arrived)
		}()
		synctest.Wait()
		select {
		case <-arrived:
			require.Fail(t, "it did not wait")
		case <-time.After(500 * time.Millisecond):
		}
		<-arrived
	})
}
