package watch

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/storage"
)

const (
	// maxOwn limits the commits that a cache remembers while the watch is late. Without its own commit
	// a writer computes from the older state that the cache shows, and the store refuses the outcome.
	maxOwn = 4096

	// ownLimit is how long AwaitOwn waits. The watch of a healthy store brings a commit at once.
	ownLimit = time.Second

	// ownAge is for how long after a commit AwaitOwn waits for it. In an outage that begins with a
	// commit which the watch has not brought, later readers do not lose a second each.
	ownAge = 10 * time.Second
)

// own are the commits of this process to one kind that the cache does not show yet.
type own struct {
	newest map[string]committed
}

// ownMark is the newest commit of this process, to whatever kind. It belongs to the dispatcher: the
// kinds have one order of revisions, and a view that takes the place of another one must know of it
// too.
type ownMark struct {
	revision atomic.Uint64
	at       atomic.Int64 // when it was raised last, in nanoseconds
}

func (m *ownMark) raise(revision storage.Revision) {
	for old := m.revision.Load(); old < uint64(revision); old = m.revision.Load() {
		// Before the revision, so that nobody sees it with an older time.
		m.at.Store(time.Now().UnixNano())
		if m.revision.CompareAndSwap(old, uint64(revision)) {
			return
		}
	}
}

// limit is how long a reader waits for the mark.
func (m *ownMark) limit() time.Duration {
	return min(ownLimit, ownAge-time.Since(time.Unix(0, m.at.Load())))
}

// Stored tells the dispatcher of the cache that this process has made a commit, before the commit
// is acknowledged to anybody; see [Cache.AwaitOwn].
func (c *Cache) Stored(revision storage.Revision) { c.dispatcher.own.raise(revision) }

// committed is the outcome of a commit for one key. The entry is nil for a deletion.
type committed struct {
	revision storage.Revision
	entry    *Entry
}

// Committed tells the cache what a commit of this process has made of a key, before the watch does.
// The entry is nil if the key was deleted. Readers do not see it; see [Cache.Newest].
func (c *Cache) Committed(key string, revision storage.Revision, entry *Entry) {
	c.Stored(revision)
	c = c.lockPresent()
	defer c.mu.Unlock()
	if revision <= c.head() || c.err != nil {
		return
	}
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

// AwaitOwn blocks until the cache shows every commit that was told with [Cache.Stored] or
// [Cache.Committed], of this kind or of others. If the watch is late it waits for a second, and for
// commits that are older than ten seconds not at all.
func (c *Cache) AwaitOwn(ctx context.Context) {
	c = c.present()
	own := &c.dispatcher.own
	last := storage.Revision(own.revision.Load())
	c.mu.RLock()
	head := c.head()
	c.mu.RUnlock()
	if last <= head {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, own.limit())
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
