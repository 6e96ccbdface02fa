package watch

import "github.com/kindwright/kindwright/storage"

// Statistics describes how large a cache is and what it keeps for its watchers.
type Statistics struct {
	Objects  int
	Revision storage.Revision // that the cache has reached
	Received uint64           // changes applied since the cache was made
	Watchers int              // open cursors
	Changes  int              // in the log

	// LogBytes is the approximate memory that only the log keeps alive: at most [CacheConfig].LogBytes,
	// or the newest change.
	LogBytes int

	// Floor is where the log begins. It has every change above it; watchers at a lower revision
	// read the store.
	Floor storage.Revision

	Indexes int // for selectors; see [Snapshot.Select]

	Unreadable int // objects that exist and cannot be read

	Comparisons uint64 // with the store; see [Dispatcher.Verify]
	Divergences uint64 // comparisons that found a difference
}

// Statistics returns current figures.
func (c *Cache) Statistics() Statistics {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return Statistics{
		Objects: c.tree.Len(), Revision: c.head(), Received: c.received, Watchers: c.roster.count,
		Changes: len(c.log.changes), LogBytes: c.log.bytes, Floor: c.log.floor,
		Indexes: len(c.indexes.made), Unreadable: len(c.unreadable),
		Comparisons: c.comparisons, Divergences: c.divergences,
	}
}
