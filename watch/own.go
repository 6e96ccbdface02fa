package watch

import (
	"context"
	"time"

	"github.com/kindwright/kindwright/storage"
)

const (
	// maxOwn limits the commits that a cache remembers while the watch is late. Without its own commit a
	// writer computes from the older state that the cache shows, and the store refuses the outcome.
	maxOwn = 4096

	// ownLimit is how long AwaitOwn waits. The watch of a healthy store brings a commit at once.
	ownLimit = time.Second
)

// own are the commits of this process that the cache does not show yet.
type own struct {
	last   storage.Revision
	newest map[string]committed
}

// committed is the outcome of a commit for one key. The entry is nil for a deletion.
type committed struct {
	revision storage.Revision
	entry    *Entry
}

// Committed tells the cache what a commit of this process has made of a key, before the watch does. The
// entry is nil if the key was deleted. Readers do not see it; see [Cache.Newest].
func (c *Cache) Committed(key string, revision storage.Revision, entry *Entry) {
	c = c.lockPresent()
	defer c.mu.Unlock()
	if revision <= c.head() || c.err != nil {
		return
	}
	c.own.last = max(c.own.last, revision)
	if have, ok := c.own.newest[key]; ok && have.revision > revision || !ok && len(c.own.newest) >= maxOwn {
		return
	}
	if c.own.newest == nil {
		c.own.newest = make(map[string]committed)
	}
	c.own.newest[key] = committed{revision, entry}
}

// Newest returns the newest entry of a storage key that is known without asking the store: the one
// that the cache shows, or a later one that this process has committed.
func (c *Cache) Newest(key string) (*Entry, bool) {
	c = c.present()
	c.mu.RLock()
	defer c.mu.RUnlock()
	if one, ok := c.own.newest[key]; ok {
		return one.entry, one.entry != nil
	}
	return c.get(key)
}

// AwaitOwn blocks until the cache shows everything that it was told of with [Cache.Committed], or
// for a second if the watch is late.
func (c *Cache) AwaitOwn(ctx context.Context) {
	c = c.present()
	c.mu.RLock()
	last, head := c.own.last, c.head()
	c.mu.RUnlock()
	if last <= head {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, ownLimit)
	defer cancel()
	_ = c.WaitFor(ctx, last) // the caller takes what there is
}

// shown forgets the commits to a key that the cache shows. The caller holds the cache's lock.
func (o *own) shown(key string, revision storage.Revision) {
	if one, ok := o.newest[key]; ok && one.revision <= revision {
		delete(o.newest, key)
	}
}

// listed forgets the commits up to a revision. The caller holds the cache's lock.
func (o *own) listed(revision storage.Revision) {
	for key, one := range o.newest {
		if one.revision <= revision {
			delete(o.newest, key)
		}
	}
}
