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
// The store is asked only for what the filter can match, and for no more than the events and the
// revisions that are wanted: each event is read once.
func (cu *Cursor) readHistory(ctx context.Context, buf []Event, limit int) ([]Event, error) {
	c := cu.cache
	prefix := cu.filter.KeyPrefix(c.config.StorageName)
	for {
		floor, begun := cu.distance()
		if begun {
			return buf, nil
		}
		page, err := c.dispatcher.store.History(ctx, storage.HistoryRequest{
			Prefix: prefix, After: cu.at, Until: floor, Limit: limit - len(buf), Prev: true,
		})
		if err != nil {
			return buf, endOf(ctx, err)
		}
		for i := range page.Batches {
			if buf, err = cu.appendHistory(&page.Batches[i], buf); err != nil {
				return buf, err
			}
			cu.advance(page.Batches[i].Revision)
		}
		if cu.advance(page.Revision) || len(buf) >= limit {
			return buf, nil
		}
	}
}

// distance returns the beginning of the log, and whether the position has reached it.
func (cu *Cursor) distance() (floor storage.Revision, begun bool) {
	c := cu.cache
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.log.floor, cu.at >= c.log.floor || cu.closed || c.err != nil
}

// appendHistory appends the events of a stored batch. The previous states come from the store, too.
func (cu *Cursor) appendHistory(batch *storage.Batch, buf []Event) ([]Event, error) {
	whole := len(buf)
	for i := range batch.Changes {
		stored := &batch.Changes[i]
		ch := change{revision: stored.Revision}
		if stored.Prev != nil {
			prev, failed := cu.cache.decode(*stored.Prev)
			if failed != nil {
				return buf[:whole], lost(failed)
			}
			ch.prev = prev
		}
		if !stored.Deleted {
			next, failed := cu.cache.decode(storage.Record{Key: stored.Key, Value: stored.Value, Revision: stored.Revision, Err: stored.Err})
			if failed != nil {
				continue // as for watches that are not behind: the next state that can be read is told
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
	_, err := c.dispatcher.store.History(ctx, storage.HistoryRequest{Prefix: c.prefix, After: after, Limit: 1})
	if err != nil {
		return endOf(ctx, err)
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
