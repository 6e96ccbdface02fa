package bbolt

import (
	"sort"

	"github.com/kindwright/kindwright/storage"
)

// ring is the newest batches, as many as a budget of bytes allows, so that
// watches that keep up never read the file.
type ring struct {
	budget  int
	after   storage.Revision // every batch after it is here
	bytes   int
	batches []storage.Batch // from first on, ascending
	first   int
}

// batchOverhead is what a batch and one change cost beside their bytes, roughly.
const batchOverhead = 200

func batchBytes(b storage.Batch) int {
	n := batchOverhead * len(b.Changes)
	for i := range b.Changes {
		c := &b.Changes[i]
		n += len(c.Key) + len(c.Value)
		if c.Prev != nil {
			n += len(c.Prev.Value)
		}
	}
	return n
}

// push adds the next batch and drops the oldest ones beyond the budget. One larger
// than the whole budget is dropped at once.
func (r *ring) push(b storage.Batch) {
	r.batches = append(r.batches, b)
	r.bytes += batchBytes(b)
	for r.bytes > r.budget {
		oldest := &r.batches[r.first]
		r.bytes -= batchBytes(*oldest)
		r.after = oldest.Revision
		*oldest = storage.Batch{}
		r.first++
	}
	if r.first > len(r.batches)/2 {
		n := copy(r.batches, r.batches[r.first:])
		clear(r.batches[n:])
		r.batches, r.first = r.batches[:n], 0
	}
}

// since is the batches after a revision; false if some are no longer here. The
// slice is valid while the ring does not change.
func (r *ring) since(after storage.Revision) ([]storage.Batch, bool) {
	if after < r.after {
		return nil, false
	}
	all := r.batches[r.first:]
	i := sort.Search(len(all), func(i int) bool { return all[i].Revision > after })
	return all[i:], true
}
