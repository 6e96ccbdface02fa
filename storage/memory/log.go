package memory

import (
	"slices"
	"sort"

	"github.com/kindwright/kindwright/storage"
)

// changeLog is the commits in the order of their revisions. A batch in it is
// never changed; watches hand it out as it is.
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

// fork returns a log of the same commits. The two share an array, behind whose
// end the older one goes on, until each has grown out of it.
func (l *changeLog) fork() changeLog {
	l.lent = true
	return changeLog{batches: slices.Clip(l.batches), lent: true}
}

// after is the index of the first commit with a revision greater than rev.
func (l *changeLog) after(rev storage.Revision) int {
	n := len(l.batches)
	if n == 0 || l.batches[n-1].Revision <= rev {
		return n
	}
	return sort.Search(n, func(i int) bool { return l.batches[i].Revision > rev })
}

// drop forgets the first n commits. The slice moves on within its array, which
// append replaces by one of the size that is left when it is used up.
func (l *changeLog) drop(n int) {
	if !l.lent {
		clear(l.batches[:n])
	}
	l.batches = l.batches[n:]
	if len(l.batches) == 0 {
		l.batches, l.lent = nil, false
	}
}
