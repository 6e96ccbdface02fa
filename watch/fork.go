package watch

import (
	"fmt"
	"slices"

	"github.com/kindwright/kindwright/storage"
)

// ForkRequest is the argument of [Dispatcher.Fork].
type ForkRequest struct {
	// Store returns the store of the fork. Required. That store must have the contents of the
	// dispatcher's store at the given revision, or at a later one with the complete history
	// between. Store is called while the dispatcher is stopped and must not call it.
	Store func(at storage.Revision) (*storage.Store, error)

	// Configs describe the kinds that the fork takes over. Kinds that are unknown or still being
	// added are left out.
	Configs []CacheConfig
}

// Fork returns a dispatcher that continues from the state of d, with copies of its caches by
// storage name: their objects, logs and pinned snapshots, without decoding anything again.
// Expensive parts are shared until one side changes them. Watchers and waiters stay with d. Run
// makes the fork follow its own store.
//
// The two do not share anything that blocks, so the fork may live in another synctest bubble. The
// error is an invalid [CacheConfig], an error of Store, or [ErrEnded]. A dispatcher that has never been
// live cannot be forked.
func (d *Dispatcher) Fork(r ForkRequest, opts ...Option) (*Dispatcher, map[string]*Cache, error) {
	for i := range r.Configs {
		if err := r.Configs[i].check(); err != nil {
			return nil, nil, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.Published()
	switch {
	case d.ended:
		return nil, nil, ErrEnded
	case at == 0:
		return nil, nil, errNotStarted
	}
	store, err := r.Store(at)
	if err != nil {
		return nil, nil, fmt.Errorf("watch: fork the store at revision %d: %w", at, err)
	}
	f := NewDispatcher(store, opts...)
	f.published.Store(uint64(at))
	caches := make(map[string]*Cache, len(r.Configs))
	for _, config := range r.Configs {
		c, ok := d.caches[storage.ResourcePrefix(config.StorageName)]
		if !ok || c.loading != nil {
			continue
		}
		fork := c.fork(f, config)
		f.caches[fork.prefix], caches[config.StorageName] = fork, fork
	}
	return f, caches, nil
}

// fork copies the cache for a dispatcher that has published the same revision. The caller holds the
// lock of the original dispatcher, so that no change is applied in the meantime.
func (c *Cache) fork(d *Dispatcher, config CacheConfig) *Cache {
	f := newCache(d, config)
	f.loading, f.byKey = nil, nil // get works without an index
	c.mu.Lock()
	defer c.mu.Unlock()
	f.listed, f.last, f.copied, f.unreadable = c.listed, c.last, c.copied, c.unreadable
	f.tree = c.tree.Snapshot() // from here on all nodes are shared: the next write copies
	f.log, f.indexes = c.log.fork(f.log), c.indexes.fork(config.MaxIndexes)
	f.pins.held = make([]pin, len(c.pins.held))
	for i, held := range c.pins.held {
		s := *held.snapshot
		s.cache = f
		f.pins.held[i] = pin{&s, held.since}
	}
	if c.err != nil {
		f.err = c.err
		close(f.done)
	}
	return f
}

// fork returns a log of the same changes with other limits. The two share an array. The original
// goes on appending to it; the fork copies it at its next change.
func (l *changeLog) fork(bounds changeLog) changeLog {
	l.lent = true
	bounds.changes, bounds.bytes, bounds.floor = slices.Clip(l.changes), l.bytes, l.floor
	bounds.lent = true
	return bounds
}

// get returns the newest entry of a storage key. A fork has no index and searches its tree, which
// is slower: copying the index would take longer than the rest of the fork.
func (c *Cache) get(key string) (*Entry, bool) {
	if c.byKey == nil {
		return c.tree.Get(placeOf(key))
	}
	entry, ok := c.byKey[key]
	return entry, ok
}
