package watch

import (
	"slices"
	"time"

	"github.com/kindwright/kindwright/storage"
)

// pins keeps snapshots for the next pages of lists, by revision (rule 14). Guarded by the cache's
// lock.
//
// The memory that all pins keep alive beyond the live index is bounded by the nodes that the index
// has copied since the oldest pin: nodes that the index still uses cost nothing. So one counter of
// copied nodes limits the memory, and the oldest pin is always the one to evict.
type pins struct {
	held     []pin // by age of their trees, oldest first
	maxCount int
	maxNodes int
	maxAge   time.Duration
}

type pin struct {
	snapshot *Snapshot
	since    time.Time
}

// add pins a snapshot unless one of the same revision is pinned.
func (p *pins) add(s *Snapshot, now time.Time) {
	if p.find(s.revision, now) != nil || p.maxCount <= 0 {
		return
	}
	at := len(p.held)
	for at > 0 && p.held[at-1].snapshot.copied > s.copied {
		at--
	}
	p.held = slices.Insert(p.held, at, pin{s, now})
	if len(p.held) > p.maxCount {
		p.drop(1)
	}
}

// find returns the pinned snapshot of a revision, or nil. It first evicts expired pins.
func (p *pins) find(revision storage.Revision, now time.Time) *Snapshot {
	p.held = slices.DeleteFunc(p.held, func(held pin) bool { return now.Sub(held.since) > p.maxAge })
	for i := range p.held {
		if p.held[i].snapshot.revision == revision {
			return p.held[i].snapshot
		}
	}
	return nil
}

// trim evicts the oldest pins until the rest is within limits. copied is the number of nodes that
// the index has copied so far.
func (p *pins) trim(copied uint64) {
	drop := 0
	for drop < len(p.held) && copied-p.held[drop].snapshot.copied > uint64(p.maxNodes) {
		drop++
	}
	p.drop(drop)
}

func (p *pins) drop(n int) {
	if n > 0 {
		p.held = slices.Delete(p.held, 0, n)
	}
}
