package metrics

import (
	"strings"
	"sync"
)

// Counts is a counter for each combination of label values. Its owner sees to it that there are few:
// values that clients choose are no labels. The zero value is ready, and all methods are safe for
// concurrent use.
type Counts struct {
	mu     sync.Mutex
	values map[string]uint64 // by the label values, joined by a byte that they do not contain
}

const between = "\xff" // in no UTF-8 text

// Add counts one more event with these label values, in the order of the family's labels.
func (c *Counts) Add(labels ...string) {
	key := strings.Join(labels, between)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.values == nil {
		c.values = map[string]uint64{}
	}
	c.values[key]++
}

// Report adds all counters to the family i of a batch. The family has at least one label.
func (c *Counts) Report(b *Batch, i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, n := range c.values {
		b.Add(i, float64(n), strings.Split(key, between)...)
	}
}
