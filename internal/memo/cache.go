package memo

import (
	"container/list"
	"sync"
	"time"
)

// Cache keeps values until they expire. When it is full, the value that was used longest ago makes
// room. It is safe for concurrent use.
type Cache[K comparable, V any] struct {
	size int

	mu      sync.Mutex
	entries map[K]*list.Element // guarded by mu, as is order
	order   list.List           // of *entry; the one used last is in front
}

type entry[K comparable, V any] struct {
	key     K
	value   V
	expires time.Time
}

// New makes a cache for so many values.
func New[K comparable, V any](size int) *Cache[K, V] {
	return &Cache[K, V]{size: size, entries: map[K]*list.Element{}}
}

// Get returns the value of a key that has not expired.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.entries[key]
	if !ok {
		return value, false
	}
	e, _ := at.Value.(*entry[K, V])
	if !time.Now().Before(e.expires) {
		c.remove(at)
		return value, false
	}
	c.order.MoveToFront(at)
	return e.value, true
}

// Put keeps a value for ttl. It keeps nothing if ttl is not positive.
func (c *Cache[K, V]) Put(key K, value V, ttl time.Duration) {
	if ttl <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.entries[key]; ok {
		c.remove(at)
	}
	for c.order.Len() >= c.size {
		c.remove(c.order.Back())
	}
	c.entries[key] = c.order.PushFront(&entry[K, V]{key, value, time.Now().Add(ttl)})
}

func (c *Cache[K, V]) remove(at *list.Element) {
	e, _ := c.order.Remove(at).(*entry[K, V])
	delete(c.entries, e.key)
}
