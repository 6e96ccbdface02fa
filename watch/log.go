package watch

import (
	"sort"
	"time"

	"github.com/kindwright/kindwright/storage"
)

// changeLog is the bounded log of changes to one resource, shared by all its watchers. A position
// in it is a revision; the next change is the first one above it. Guarded by the cache's lock.
type changeLog struct {
	// changes are ordered by revision. They contain every change above floor, and possibly some
	// below it.
	changes []change
	floor   storage.Revision
	lent    bool // a fork reads this array

	bytes    int // memory that only the changes keep alive, not the index
	maxBytes int
	maxAge   time.Duration
}

// changeOverhead is the approximate size of a change without its entries.
const changeOverhead = 64

// cost returns the memory that only the log keeps alive: the previous entry. The next entry belongs
// to the index until another change supersedes it.
func (c *change) cost() int {
	if c.prev == nil {
		return changeOverhead
	}
	return changeOverhead + c.prev.Size()
}

// append adds the newest change and drops the oldest ones beyond the limits. It always keeps the
// newest, so that the watchers it wakes find it.
func (l *changeLog) append(c change) {
	if len(l.changes) == cap(l.changes) {
		l.lent = false // append below copies to a new array
	}
	l.changes = append(l.changes, c)
	l.bytes += c.cost()
	oldest := c.at - int64(l.maxAge)
	drop := 0
	for drop < len(l.changes)-1 && (l.bytes > l.maxBytes || l.changes[drop].at < oldest) {
		l.bytes -= l.changes[drop].cost()
		l.floor = l.changes[drop].revision
		drop++
	}
	// Dropped slots must not keep entries alive. append copies the rest once the array is full.
	if !l.lent {
		clear(l.changes[:drop])
	}
	l.changes = l.changes[drop:]
}

// after returns the changes above a revision, which must be at least floor. The result is valid
// while the lock is held.
func (l *changeLog) after(revision storage.Revision) []change {
	if n := len(l.changes); n == 0 || l.changes[n-1].revision <= revision {
		return nil
	}
	first := sort.Search(len(l.changes), func(i int) bool { return l.changes[i].revision > revision })
	return l.changes[first:]
}

// reset clears the log, which then starts at floor.
func (l *changeLog) reset(floor storage.Revision) {
	l.changes, l.bytes, l.floor, l.lent = nil, 0, floor, false
}
