package watch

import (
	"context"

	"github.com/kindwright/kindwright/storage"
)

// readHistory appends about limit events from the store's history to buf, for a cursor that has
// fallen behind the log. It returns early when the position has reached the beginning of the log.
// The log holds everything above its floor, so the cursor can switch over at any later revision
// without losing or repeating a change (rule 13).
//
// The store is asked only for what the filter can match. Reading cannot block forever: the store
// has reached the floor, and a watch reports its progress up to the current revision, at the latest
// after a call of Revision.
func (cu *Cursor) readHistory(ctx context.Context, buf []Event, limit int) ([]Event, error) {
	c := cu.cache
	if _, err := c.dispatcher.store.Revision(ctx); err != nil {
		return buf, endOf(ctx, err)
	}
	prefix := cu.filter.KeyPrefix(c.config.StorageName)
	for batch, err := range c.dispatcher.store.Watch(ctx, prefix, cu.at) {
		if err != nil {
			return buf, endOf(ctx, err)
		}
		if buf, err = cu.appendHistory(&batch, buf); err != nil {
			return buf, err
		}
		if cu.advance(batch.Revision) || len(buf) >= limit {
			break
		}
	}
	return buf, nil
}

// appendHistory appends the events of a stored batch. The previous states come from the store, too.
func (cu *Cursor) appendHistory(batch *storage.Batch, buf []Event) ([]Event, error) {
	whole := len(buf)
	for i := range batch.Changes {
		stored := &batch.Changes[i]
		ch := change{revision: batch.Revision}
		if stored.Prev != nil {
			prev, failed := cu.cache.decode(*stored.Prev)
			if failed != nil {
				return buf[:whole], failed
			}
			ch.prev = prev
		}
		if !stored.Deleted {
			next, failed := cu.cache.decode(storage.Record{Key: stored.Key, Value: stored.Value, Revision: batch.Revision})
			if failed != nil {
				return buf[:whole], failed
			}
			ch.next = next
		}
		if event, ok := cu.filter.event(&ch); ok {
			buf = append(buf, event)
		}
	}
	return buf, nil
}

// advance moves the position and reports whether it has reached the log.
func (cu *Cursor) advance(to storage.Revision) bool {
	c := cu.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	cu.at = to
	return to >= c.log.floor || cu.closed || c.err != nil
}

// reachable returns nil if every change after a revision is still available from the log or the
// store.
func (cu *Cursor) reachable(ctx context.Context, after storage.Revision) error {
	c := cu.cache
	c.mu.RLock()
	logged := after >= c.log.floor
	c.mu.RUnlock()
	if logged {
		return nil
	}
	if _, err := c.dispatcher.store.Revision(ctx); err != nil {
		return endOf(ctx, err)
	}
	for _, err := range c.dispatcher.store.Watch(ctx, c.prefix, after) {
		if err != nil {
			return endOf(ctx, err)
		}
		break // one step proves it
	}
	return nil
}

// endOf returns the context's error instead of the store's if the context has ended.
func endOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
