package watch

import (
	"context"
	"fmt"
)

// A Replacement is a live view that is to take the place of another one of the same storage name. Until then the dispatcher
// feeds both. Exactly one of Swap and Cancel is called.
type Replacement struct {
	dispatcher *Dispatcher
	cache      *Cache
}

// Replace lists a kind that is there already once more, as another CacheConfig describes it. Errors are those of [Dispatcher.Add];
// one replacement of a kind can be under way at a time.
func (d *Dispatcher) Replace(ctx context.Context, config CacheConfig) (*Replacement, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	c := newCache(d, config)
	c.shadow.Store(true)
	if err := d.registerShadow(c); err != nil {
		return nil, err
	}
	if err := d.fillNew(ctx, c); err != nil {
		return nil, err
	}
	return &Replacement{d, c}, nil
}

func (d *Dispatcher) registerShadow(c *Cache) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return ErrEnded
	}
	if d.shadows[c.prefix] != nil {
		return fmt.Errorf("watch: %q is being replaced already", c.config.StorageName)
	}
	d.shadows[c.prefix] = c
	return nil
}

// Cache returns the new live view.
func (r *Replacement) Cache() *Cache { return r.cache }

// Swap puts the new live view in the place of the old one. Cursors of the old one end with [ErrGone]; all else that is asked of
// it is answered by the new one, so that whoever still has the old one reads the present.
func (r *Replacement) Swap() {
	d := r.dispatcher
	d.mu.Lock()
	defer d.mu.Unlock()
	c := r.cache
	if d.shadows[c.prefix] != c {
		return // the dispatcher has ended
	}
	delete(d.shadows, c.prefix)
	old := d.caches[c.prefix]
	d.caches[c.prefix] = c
	if old != nil {
		old.next.Store(c)
		old.stop(ErrGone)
	}
	c.shadow.Store(false)
	c.mu.RLock()
	c.tellFilled()
	c.mu.RUnlock()
	for _, o := range (*d.observed.Load())[c.prefix] {
		o.await()
	}
}

// Cancel drops the new live view.
func (r *Replacement) Cancel() { r.dispatcher.unregister(r.cache) }

// present returns the live view that has taken the place of this one; mostly, this one.
func (c *Cache) present() *Cache {
	for {
		next := c.next.Load()
		if next == nil {
			return c
		}
		c = next
	}
}

// precedes reports whether another live view has taken the place of this one, directly or not. That
// one may have been replaced, too, even while it is locked.
func (c *Cache) precedes(other *Cache) bool {
	for at := c.next.Load(); at != nil; at = at.next.Load() {
		if at == other {
			return true
		}
	}
	return false
}

// lockPresent returns what present does, locked. A swap that begins meanwhile waits for the lock before
// it stops the cache, so the cache is live until it is unlocked.
func (c *Cache) lockPresent() *Cache {
	for {
		c = c.present()
		c.mu.Lock()
		if c.next.Load() == nil {
			return c
		}
		c.mu.Unlock()
	}
}

// all walks every cache that is fed. The caller holds the lock.
func (d *Dispatcher) all(yield func(*Cache) bool) {
	for _, of := range []map[string]*Cache{d.caches, d.shadows} {
		for _, c := range of {
			if !yield(c) {
				return
			}
		}
	}
}

// feeds tells whether a cache is one of the dispatcher's. The caller holds the lock.
func (d *Dispatcher) feeds(c *Cache) bool { return d.caches[c.prefix] == c || d.shadows[c.prefix] == c }
