package watch

import (
	"context"

	"github.com/kindwright/kindwright/storage"
)

// readHistory appends about limit events from the store's history to buf, for a cursor that the log
// has left behind. It ends early when the position has come to where the log begins: the log holds
// everything above its floor, so at any revision from there on the cursor can change over, and
// nothing is lost or shown twice (rule 13).
//
// The store is asked for what the filter can match and no more. It cannot leave the cursor waiting
// for a change that never comes: the floor is a revision that the store has reached, and a watch
// reports its progress up to the current revision, at the latest after Revision was asked.
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

// appendHistory appends a stored batch's events. What an object was before comes from the store as
// well.
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

// advance moves the position and reports whether the log reaches it.
func (cu *Cursor) advance(to storage.Revision) bool {
	c := cu.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	cu.at = to
	return to >= c.log.floor || cu.closed || c.err != nil
}

// reachable returns nil when every change after a revision can still be had, from the log or from
// the store.
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
		break // one step is proof enough
	}
	return nil
}

// endOf prefers the context's own error to what the store made of it.
func endOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
