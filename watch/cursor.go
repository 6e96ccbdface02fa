package watch

import (
	"context"
	"errors"
	"fmt"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
)

// WatchRequest asks for the changes to some objects of a kind.
type WatchRequest struct {
	Filter Filter
	// After is the revision after which the watch starts: it shows every change with a greater
	// revision. 0 means from now on. The revision may be one that the cache has not reached yet.
	// Such a watch waits silently, so first call Cache.WaitFor to find out if the revision is ever
	// reached.
	After storage.Revision
}

// Cursor is one watcher: a position in the log that all watchers of a kind share. It has no buffer,
// so a slow reader costs only a position.
//
// A cursor is in one of these states:
//
//   - reading: it has a position, the revision at. The next change is the first one above it.
//   - parked: it has read everything. It has no position and stays at the head, wherever that
//     moves, until a commit concerns it. That commit sets its position just below itself and wakes
//     it.
//   - behind: the log starts above at. The cursor reads the store's history until it reaches the
//     log.
//   - starting, only after WatchFromSnapshot: it walks the snapshot and then reads from the
//     snapshot's revision.
//
// Next, Progress, Walking and the returned events belong to one goroutine at a time. Close is safe
// to call from any goroutine.
type Cursor struct {
	cache  *Cache
	filter *Filter       // the group's
	wake   chan struct{} // capacity 1

	// Used only by the goroutine that calls Next.
	initial *initial // nil after the initial events
	copied  []change // copied from the log; reused

	// Guarded by the cache's lock. at and parked change together.
	group  *group // in the roster
	slot   int    // in the group
	epoch  int
	closed bool
	parked bool
	at     storage.Revision // every matching change up to this revision has been returned; stale while parked
}

// initial is the walk over the snapshot with which a watch begins. It resumes by key, so a slow
// reader neither buffers nor locks anything.
type initial struct {
	snapshot *Snapshot
	by       *selection // nil until the first walk
	after    string
	done     bool // all events were returned, but not the end mark
}

// Watch starts a watch after a revision. It fails only with the errors of [Cache.Err]; the first
// Next reports a revision that is too old. The caller must close the cursor.
func (c *Cache) Watch(_ context.Context, request WatchRequest) (*Cursor, error) {
	c = c.lockPresent()
	defer c.mu.Unlock()
	after := request.After
	if after == 0 {
		after = c.head()
	}
	return c.newCursor(request.Filter, after)
}

// WatchFromSnapshot starts a watch with the objects of a snapshot. It shows them as ADDED events in
// key order, then one meta.Bookmark event with the snapshot's revision, then the changes since. It
// walks the snapshot as events are read. Errors are those of Watch. The caller must close the
// cursor.
func (c *Cache) WatchFromSnapshot(snapshot *Snapshot, filter Filter) (*Cursor, error) {
	c = c.lockPresent()
	defer c.mu.Unlock()
	if snapshot.cache != c && snapshot.cache.precedes(c) {
		c.share()
		snapshot = c.snapshot(c.head()) // of what has taken the place since: it is newer
	}
	if snapshot.cache != c {
		return nil, fmt.Errorf("watch: the snapshot of %s is not one of %s", snapshot.cache.config.StorageName, c.config.StorageName)
	}
	cursor, err := c.newCursor(filter, snapshot.revision)
	if err != nil {
		return nil, err
	}
	cursor.initial = &initial{snapshot: snapshot}
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

// Close ends the watch and releases its resources. A Next in progress returns [ErrEnded]. A second
// Close has no effect.
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

// signal wakes a waiting Next, or the next call that would wait.
func (cu *Cursor) signal() {
	select {
	case cu.wake <- struct{}{}:
	default:
	}
}

// Walking reports whether initial events or the mark after them are still to come, so that the next
// Next does not block.
func (cu *Cursor) Walking() bool { return cu.initial != nil }

// Progress returns the revision that a bookmark may carry now: Next has returned every matching
// change up to it, so a watch that starts after it misses nothing. It advances with the store while
// nothing matches. It is 0 until the initial events are complete; do not send a bookmark then.
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

// defaultEvents is how many events Next returns at most if its caller sets no limit.
const defaultEvents = 32

// Next returns the next events in the order of revisions. It blocks until there is at least one. It
// overwrites buf and returns about as many events as fit. If buf has no capacity, Next allocates an
// array for 32 events once there are any.
//
// With an error Next returns no events. The error is the context's; [storage.ErrCompacted] if
// changes that the watch has not seen are gone, also in place of the mark after the initial events;
// an error of [Cache.Err] if the kind has stopped; [ErrEnded] after Close; or an error of the store
// while reading history.
//
// After an error of the context or the store the cursor has not moved, and Next may be called
// again. Use a context with a deadline to send bookmarks in between.
func (cu *Cursor) Next(ctx context.Context, buf []Event) ([]Event, error) {
	limit := cap(buf)
	if limit == 0 {
		limit = defaultEvents
	}
	buf = buf[:0]
	var outage backoff
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
			if errors.Is(err, storage.ErrUnavailable) { // the changes are still there after the outage
				err = outage.wait(ctx)
			}
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

// room allocates an array if the caller did not pass one. Most watchers wait most of the time and
// do not need one while they do.
func room(buf []Event) []Event {
	if cap(buf) == 0 {
		return make([]Event, 0, defaultEvents)
	}
	return buf
}

// state is what a cursor does next.
type state int

const (
	starting state = iota // walk the snapshot
	reading               // filter the copied changes
	behind                // read the store's history
	parked                // wait
)

// take decides what to do next. In the state reading it copies about limit changes from the log and
// moves the position past them. At the end of the log it parks the cursor under the same lock, so
// that no commit is missed.
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
	if cu.copyUnread(limit) == 0 {
		return parked, nil
	}
	return reading, nil
}

// Rest returns the next events that the cursor can return without waiting and without the store's
// history, also after the kind was removed or replaced. It returns none when there are no more. It
// overwrites buf as Next does.
func (cu *Cursor) Rest(buf []Event) []Event {
	buf = room(buf[:0])
	for len(buf) == 0 && cu.copyRest(cap(buf)) {
		buf = cu.filterCopied(buf)
	}
	return buf
}

// copyRest is what take does in the state reading. It reports whether there was a change.
func (cu *Cursor) copyRest(limit int) bool {
	c := cu.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if cu.closed || cu.epoch != c.epoch || cu.initial != nil || cu.at < c.log.floor {
		return false
	}
	return cu.copyUnread(limit) > 0
}

// copyUnread copies about limit changes from the log, moves the position past them, and returns how many
// there are. At the end of the log it parks the cursor. The caller holds the lock.
func (cu *Cursor) copyUnread(limit int) int {
	unread := cu.cache.log.after(cu.at)
	n := min(limit, len(unread))
	for n > 0 && n < len(unread) && unread[n].revision == unread[n-1].revision {
		n++ // never stop inside a revision: a watch resumes after one
	}
	cu.copied = append(cu.copied[:0], unread[:n]...)
	if n > 0 {
		cu.at = unread[n-1].revision
	}
	cu.parked = n == len(unread)
	return n
}

// filterCopied converts the copied changes to events, outside the lock.
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

// sleep waits until a commit concerns the parked cursor, or the watch ends.
func (cu *Cursor) sleep(ctx context.Context) error {
	select {
	case <-cu.wake:
		return nil
	case <-cu.cache.done:
		return nil // the next take finds out why
	case <-ctx.Done():
		return ctx.Err()
	}
}

// walk returns the next initial events and, after the last one, the end mark. It returns the mark
// only if the changes since the snapshot are still available, so that its receiver can rely on what
// follows.
func (cu *Cursor) walk(ctx context.Context, buf []Event, limit int) ([]Event, error) {
	w := cu.initial
	if !w.done {
		full := false
		if w.by == nil {
			w.by = w.snapshot.selection(cu.filter, "")
		}
		for entry := range w.by.from(w.after) {
			w.after = entry.key
			buf = append(buf, Event{Type: meta.Added, Entry: entry, Revision: entry.revision})
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
		w.by.end()
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
