package watch

import (
	"sort"
	"time"

	"github.com/kindwright/kindwright/storage"
)

// changeLog is the bounded memory of what happened to one resource, shared by all its watchers. A
// position in it is a revision: what comes next is the first change above it. Guarded by the
// cache's lock.
type changeLog struct {
	// changes are ordered by revision. Everything above floor is in here; what is at or below it
	// may not be.
	changes []change
	floor   storage.Revision
	lent    bool // forks read the changes in this array

	bytes    int // what the changes keep alive that the index no longer does
	maxBytes int
	maxAge   time.Duration
}

// changeOverhead is about what a change costs beside the entries it points to.
const changeOverhead = 64

// cost of a change in the log: the previous entry, which nothing else holds any more. The next
// entry belongs to the index, until the change that supersedes it is charged for it.
func (c *change) cost() int {
	if c.prev == nil {
		return changeOverhead
	}
	return changeOverhead + c.prev.Size()
}

// append adds the newest change and lets go of the oldest ones beyond the bounds. The newest always
// stays, so that the watchers it wakes find it.
func (l *changeLog) append(c change) {
	if len(l.changes) == cap(l.changes) {
		l.lent = false // the changes move to an array of their own
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
	// The dropped slots keep nothing alive; append moves the rest once the array is used up.
	if !l.lent {
		clear(l.changes[:drop])
	}
	l.changes = l.changes[drop:]
}

// after returns the changes above a revision, which must be at least floor. They are valid while
// the lock is held.
func (l *changeLog) after(revision storage.Revision) []change {
	if n := len(l.changes); n == 0 || l.changes[n-1].revision <= revision {
		return nil
	}
	first := sort.Search(len(l.changes), func(i int) bool { return l.changes[i].revision > revision })
	return l.changes[first:]
}

// reset forgets everything: the log begins at floor.
func (l *changeLog) reset(floor storage.Revision) {
	l.changes, l.bytes, l.floor, l.lent = nil, 0, floor, false
}
