package watch

import "github.com/kindwright/kindwright/storage"

// Statistics says what a cache keeps for its watchers, beside the objects themselves.
type Statistics struct {
	Watchers int // cursors that are open
	Changes  int // in the log

	// LogBytes is about what the log keeps alive that nothing else does: at most [Config].LogBytes,
	// or the newest change.
	LogBytes int

	// Floor is where the log begins: every change above it is in it, watchers at a lower revision
	// read the store.
	Floor storage.Revision
}

// Statistics returns what the cache keeps at this moment.
func (c *Cache) Statistics() Statistics {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return Statistics{Watchers: c.roster.count, Changes: len(c.log.changes), LogBytes: c.log.bytes, Floor: c.log.floor}
}
