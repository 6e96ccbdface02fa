package watch

import (
	"context"
	"fmt"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
)

// WatchRequest asks for the changes to some objects of a kind.
type WatchRequest struct {
	Filter Filter
	// After is where the watch begins: it shows every change with a greater revision. 0 means from
	// now on. A revision that the cache has not reached is legal, and nothing at or below it will
	// be shown; to find out in time that it is never reached, wait with Cache.WaitFor first.
	After storage.Revision
}

// Cursor is one watcher: a position in the log that all watchers of a kind share. It buffers
// nothing, so a slow reader costs a position and nothing else.
//
// How it moves:
//
//   - reading: the position is at; what comes next is the first change above it.
//   - parked: it has read all there is. It has no position, for it is at the head however far the
//     head moves, until a commit concerns it. That commit gives it a position just below itself and
//     wakes it (rule 12).
//   - behind: the log no longer reaches at. It reads the store's history until the log does (rule
//     13).
//   - at first, of WatchFromSnapshot: it walks the snapshot, then is reading at the snapshot's
//     revision (rule 17).
//
// Next, Progress, Walking and the events they return belong to one goroutine at a time; Close may
// be called from any.
type Cursor struct {
	cache  *Cache
	filter *Filter       // the group's
	wake   chan struct{} // capacity 1

	// Of the goroutine that calls Next.
	initial *initial // nil once the initial events are out
	copied  []change // taken from the log; reused

	// Guarded by the cache's lock; at and parked change together only under it.
	group  *group // in the roster
	slot   int    // in the group
	epoch  int
	closed bool
	parked bool
	at     storage.Revision // every matching change at or below has been returned; stale while parked
}

// initial is the walk over the snapshot that a watch begins with. It is resumed by key, so nothing
// of it is buffered or held open while the reader is slow.
type initial struct {
	snapshot *Snapshot
	prefix   string
	after    string
	done     bool // all events are out, the end mark is not
}

// Watch begins a watch after a revision. It fails only with what [Cache.Err] returns; that the
// revision is too old is found by the first Next. The caller closes the cursor.
func (c *Cache) Watch(_ context.Context, request WatchRequest) (*Cursor, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	after := request.After
	if after == 0 {
		after = c.head()
	}
	return c.newCursor(request.Filter, after)
}

// WatchFromSnapshot begins a watch with the objects of a snapshot, as ADDED events in the order of
// their keys, then one event of type meta.Bookmark with the snapshot's revision, then what happened
// since (rule 17). The snapshot is walked as events are asked for. Errors are those of Watch. The
// caller closes the cursor.
func (c *Cache) WatchFromSnapshot(snapshot *Snapshot, filter Filter) (*Cursor, error) {
	if snapshot.cache != c {
		return nil, fmt.Errorf("watch: the snapshot of %s is not one of %s", snapshot.cache.config.StorageName, c.config.StorageName)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	cursor, err := c.newCursor(filter, snapshot.revision)
	if err != nil {
		return nil, err
	}
	cursor.initial = &initial{snapshot: snapshot, prefix: filter.KeyPrefix(c.config.StorageName)}
	return cursor, nil
}

func (c *Cache) newCursor(filter Filter, after storage.Revision) (*Cursor, error) {
	if c.err != nil {
		return nil, c.err
	}
	cursor := &Cursor{cache: c, wake: make(chan struct{}, 1), epoch: c.epoch, at: after}
	c.roster.add(cursor, &filter, c.config.Fields)
	cursor.filter = &cursor.group.filter
	return cursor, nil
}

// Close ends the watch and lets go of what it holds. A Next under way returns [ErrEnded]. Closing
// again does nothing.
func (cu *Cursor) Close() {
	cu.cache.mu.Lock()
	defer cu.cache.mu.Unlock()
	if cu.closed {
		return
	}
	cu.closed = true
	cu.parked = false
	cu.cache.roster.remove(cu)
	cu.signal()
}

// signal wakes a waiting Next, or the next one that would wait.
func (cu *Cursor) signal() {
	select {
	case cu.wake <- struct{}{}:
	default:
	}
}

// Walking tells whether initial events are still to come, or the mark behind them, so that the next
// Next will not wait.
func (cu *Cursor) Walking() bool { return cu.initial != nil }

// Progress returns the revision a bookmark may carry now: every matching change at or below it has
// been returned by Next, and a watch that begins after it misses nothing. While nothing matches it
// moves on with the store. Before the initial events are complete it is 0: no bookmark then.
func (cu *Cursor) Progress() storage.Revision {
	if cu.initial != nil {
		return 0
	}
	cu.cache.mu.RLock()
	defer cu.cache.mu.RUnlock()
	return cu.progress()
}

func (cu *Cursor) progress() storage.Revision {
	if !cu.parked {
		return cu.at
	}
	return max(cu.at, cu.cache.head())
}

// defaultEvents is how many events Next returns at most when its caller does not say.
const defaultEvents = 32

// Next returns the next events, in the order of revisions, in the array of buf and about as many as
// fit; if buf has no room an array for 32 is made once there are events. It blocks until there is
// at least one. What was in buf is overwritten.
//
// Errors come with no events in buf: the context's; [storage.ErrCompacted] when changes that the
// watch has not seen are gone, also instead of the mark at the end of the initial events; what
// [Cache.Err] returns when the kind has stopped; [ErrEnded] after Close; and those of the store and
// [DecodeError] while history is read. After the context's error and the store's the cursor is
// where it was, and Next may be called again: a context with a deadline is how its caller gets to
// send a bookmark.
func (cu *Cursor) Next(ctx context.Context, buf []Event) ([]Event, error) {
	limit := cap(buf)
	if limit == 0 {
		limit = defaultEvents
	}
	buf = buf[:0]
	for {
		if err := ctx.Err(); err != nil {
			return buf, err
		}
		state, err := cu.take(limit)
		if err != nil {
			return buf, err
		}
		switch state {
		case starting:
			buf, err = cu.walk(ctx, room(buf), limit)
		case behind:
			buf, err = cu.readHistory(ctx, room(buf), limit)
		case parked:
			err = cu.sleep(ctx)
		case reading:
			buf = cu.filterCopied(room(buf))
		}
		if len(buf) > 0 {
			return buf, nil
		}
		if err != nil {
			return buf, err
		}
	}
}

// room makes the array of a caller who brought none. Most watchers wait most of the time, and need
// none for that.
func room(buf []Event) []Event {
	if cap(buf) == 0 {
		return make([]Event, 0, defaultEvents)
	}
	return buf
}

// state is what a cursor has to do next.
type state int

const (
	starting state = iota // walk the snapshot
	reading               // look at the changes that were copied
	behind                // read the store's history
	parked                // wait
)

// take decides what to do next. For reading it copies about limit changes from the log and moves
// the position beyond them; having reached the end, the cursor parks in the same breath, so that no
// commit falls between.
func (cu *Cursor) take(limit int) (state, error) {
	c := cu.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case cu.closed:
		return 0, ErrEnded
	case c.err != nil:
		return 0, c.err
	case cu.epoch != c.epoch:
		return 0, errLost(c.config.StorageName)
	case cu.initial != nil:
		return starting, nil
	case cu.parked:
		return parked, nil
	case cu.at < c.log.floor:
		return behind, nil
	}
	unread := c.log.after(cu.at)
	n := min(limit, len(unread))
	for n > 0 && n < len(unread) && unread[n].revision == unread[n-1].revision {
		n++ // never stop inside a revision: a watch resumes after one
	}
	cu.copied = append(cu.copied[:0], unread[:n]...)
	if n > 0 {
		cu.at = unread[n-1].revision
	}
	cu.parked = n == len(unread)
	if n == 0 {
		return parked, nil
	}
	return reading, nil
}

// filterCopied makes events of the copied changes, outside the lock.
func (cu *Cursor) filterCopied(buf []Event) []Event {
	for i := range cu.copied {
		if event, ok := cu.filter.event(&cu.copied[i]); ok {
			buf = append(buf, event)
		}
	}
	clear(cu.copied) // do not keep the entries alive while waiting
	if cap(cu.copied) > defaultEvents {
		cu.copied = nil
	}
	return buf
}

// sleep waits until a commit concerns the parked cursor, or something ended.
func (cu *Cursor) sleep(ctx context.Context) error {
	select {
	case <-cu.wake:
		return nil
	case <-cu.cache.done:
		return nil // the next look finds out why
	case <-ctx.Done():
		return ctx.Err()
	}
}

// walk returns the next initial events, and after the last of them the end mark, provided that the
// changes since can still be had: whoever gets the mark can rely on what follows.
func (cu *Cursor) walk(ctx context.Context, buf []Event, limit int) ([]Event, error) {
	w := cu.initial
	if !w.done {
		full := false
		for entry := range w.snapshot.Ascend(w.prefix, w.after) {
			w.after = entry.key
			if cu.filter.matches(entry) {
				buf = append(buf, Event{Type: meta.Added, Entry: entry, Revision: entry.revision})
			}
			if full = len(buf) >= limit; full {
				break
			}
		}
		if err := w.snapshot.Err(); err != nil {
			return buf, err
		}
		if full {
			return buf, nil
		}
		w.done = true
	}
	if len(buf) > 0 {
		return buf, nil
	}
	revision := w.snapshot.revision
	if err := cu.reachable(ctx, revision); err != nil {
		return buf, err
	}
	cu.initial = nil
	return append(buf, Event{Type: meta.Bookmark, Revision: revision}), nil
}
