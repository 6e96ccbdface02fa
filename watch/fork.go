package watch

import (
	"fmt"
	"slices"

	"github.com/kindwright/kindwright/storage"
)

// ForkRequest says what a fork of a dispatcher works on; see [Dispatcher.Fork].
type ForkRequest struct {
	// Store returns the store of the fork. Required. It must hold what the dispatcher's own holds
	// at a revision, and be at that or a later one, with everything in between. It is called while
	// the dispatcher stands still, and must call nothing of it.
	Store func(at storage.Revision) (*storage.Store, error)

	// Configs describe the kinds that the fork takes over. One that is not there, or still being
	// added, is left out.
	Configs []Config
}

// Fork returns a dispatcher that goes on from where this one is, with a copy of its caches by their
// storage names: their objects, their logs and their pinned snapshots, none of it decoded again.
// What takes a while is shared until one of the two changes it. Watchers and waiters stay where
// they are. Run begins to follow the store of the fork.
//
// The two share nothing that blocks: the fork may live in a synctest bubble that the other one is
// not in. Errors: a bad [Config], what Store returns, and [ErrEnded]; before the dispatcher is live
// there is nothing to fork.
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

// fork copies the cache for another dispatcher, which is published as far as its own. The caller
// holds the lock of its own, so that nothing is applied meanwhile.
func (c *Cache) fork(d *Dispatcher, config Config) *Cache {
	f := newCache(d, config)
	f.loading, f.byKey = nil, nil // get does without an index
	c.mu.Lock()
	defer c.mu.Unlock()
	f.listed, f.last, f.copied = c.listed, c.last, c.copied
	f.tree = c.tree.Snapshot() // the nodes that are not shared yet are now: the next write copies
	f.log = c.log.fork(f.log)
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

// fork returns a log of the same changes within other bounds. The two share an array, behind whose
// end the older one goes on; the younger one moves to another with the next change.
func (l *changeLog) fork(bounds changeLog) changeLog {
	l.lent = true
	bounds.changes, bounds.bytes, bounds.floor = slices.Clip(l.changes), l.bytes, l.floor
	bounds.lent = true
	return bounds
}

// get returns the newest entry of a storage key. A fork has no index and looks into its tree, which
// is slower: to copy the index would take longer than all the rest of the fork.
func (c *Cache) get(key string) (*Entry, bool) {
	if c.byKey == nil {
		return c.tree.Get(key)
	}
	entry, ok := c.byKey[key]
	return entry, ok
}
