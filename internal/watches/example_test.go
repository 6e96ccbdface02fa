package watches_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/kindwright/kindwright/internal/watches"
	"github.com/kindwright/kindwright/storage"
)

// counter is a store whose every commit changes one key.
type counter struct {
	mu      sync.RWMutex
	current storage.Revision
}

func (*counter) Bounds() (storage.Revision, error) { return 0, nil }

func (c *counter) Read(w *watches.Watch) (caughtUp bool, err error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var batches []storage.Batch
	for rev := w.Reached + 1; rev <= c.current; rev++ {
		batches = append(batches, storage.Batch{Revision: rev, Changes: []storage.Change{{Key: "/count", Revision: rev}}})
	}
	return w.Take(batches, 100), nil
}

func Example() {
	c := &counter{current: 2}
	set := watches.New(&c.mu, &c.current, c, nil)
	for b, err := range set.Watch(context.Background(), "/", 0) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(b.Revision, b.Changes[0].Key)
		if b.Revision == 2 {
			break
		}
	}
	// Output:
	// 1 /count
	// 2 /count
}
