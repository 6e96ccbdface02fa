package watch

import (
	"context"
	"fmt"

	"github.com/kindwright/kindwright/storage"
)

// resync lists every kind again after the store has compacted changes that were not seen, and
// continues from there. It replaces one kind at a time; until its turn each one stays complete at
// its old revision.
func (d *Dispatcher) resync(ctx context.Context) error {
	revision, err := d.store.Revision(ctx)
	if err != nil {
		return err
	}
	for {
		c := d.outdated(revision)
		if c == nil {
			return nil
		}
		l, err := c.list(ctx, revision)
		if err != nil {
			return fmt.Errorf("watch: list %s again: %w", c.config.StorageName, err)
		}
		c.reload(l)
	}
}

// outdated returns a live cache that must be listed again. If there is none, it publishes the
// revision under the same lock: kinds that are being added were listed above the revision or are
// told to list again.
func (d *Dispatcher) outdated(revision storage.Revision) *Cache {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.all {
		if c.loading == nil && c.isBelow(revision) {
			return c
		}
	}
	for c := range d.all {
		if c.loading != nil {
			c.loading.least = max(c.loading.least, revision)
		}
	}
	d.awaitAll()
	d.advance(revision)
	return nil
}

// isBelow reports whether the cache lacks changes up to a revision that is not published yet.
func (c *Cache) isBelow(revision storage.Revision) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.err == nil && c.last < revision
}
