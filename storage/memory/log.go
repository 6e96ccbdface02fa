package memory

import (
	"slices"
	"sort"

	"github.com/kindwright/kindwright/storage"
)

// changeLog holds the commits in the order of their revisions. A batch in it never changes, and
// watches return it as it is.
type changeLog struct {
	batches []storage.Batch
	lent    bool // others read the batches in this array
}

func (l *changeLog) append(b storage.Batch) {
	if len(l.batches) == cap(l.batches) {
		l.lent = false // the batches move to an array of their own
	}
	l.batches = append(l.batches, b)
}

// fork returns a log of the same commits. The two share an array, until each has grown out of it.
// The older log appends behind the shared part.
func (l *changeLog) fork() changeLog {
	l.lent = true
	return changeLog{batches: slices.Clip(l.batches), lent: true}
}

// after returns the index of the first commit with a revision greater than rev.
func (l *changeLog) after(rev storage.Revision) int {
	n := len(l.batches)
	if n == 0 || l.batches[n-1].Revision <= rev {
		return n
	}
	return sort.Search(n, func(i int) bool { return l.batches[i].Revision > rev })
}

// around returns the nearest revisions at or below rev, and at or above it, that are not inside of a
// commit. A commit is visible as a whole from its last revision on.
func (l *changeLog) around(rev storage.Revision) (before, end storage.Revision) {
	i := l.after(rev)
	if i == len(l.batches) || l.batches[i].Changes[0].Revision > rev {
		return rev, rev
	}
	return l.batches[i].Changes[0].Revision - 1, l.batches[i].Revision
}

// drop removes the first n commits. The slice moves forward within its array. When the array is
// used up, append replaces it by one for the remaining commits.
func (l *changeLog) drop(n int) {
	if !l.lent {
		clear(l.batches[:n])
	}
	l.batches = l.batches[n:]
	if len(l.batches) == 0 {
		l.batches, l.lent = nil, false
	}
}
