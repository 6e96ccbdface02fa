package engine

import (
	"iter"
	"sync"

	"github.com/kindwright/kindwright/watch"
)

// concurrent is how many objects [Each] processes at the same time.
const concurrent = 8

// Each calls do for each entry: one at a time and in order for the first few, concurrently for the
// others, because writes that overlap share a sync of the store. It ends early if do returns false
// or the entries have an error, which it returns. All calls of do have returned then. do must not
// panic.
func Each(entries iter.Seq2[*watch.Entry, error], few int, do func(*watch.Entry) bool) error {
	var running sync.WaitGroup
	defer running.Wait()
	queue := make(chan *watch.Entry)
	defer close(queue)
	stopped := make(chan struct{})
	stop := sync.OnceFunc(func() { close(stopped) })
	n := 0
	for entry, err := range entries {
		if err != nil {
			return err
		}
		if n++; n <= few {
			if !do(entry) {
				return nil
			}
			continue
		}
		if n <= few+concurrent {
			running.Go(func() {
				for entry := range queue {
					if !do(entry) {
						stop()
					}
				}
			})
		}
		select {
		case queue <- entry:
		case <-stopped:
			return nil
		}
	}
	return nil
}
