package bbolt

import (
	"sort"

	"github.com/kindwright/kindwright/storage"
)

// ring holds the newest batches, as many as fit into a number of bytes, so watches that keep up
// never read the file.
type ring struct {
	budget  int
	after   storage.Revision // every later batch is here
	bytes   int
	batches []storage.Batch // from first on, ascending
	first   int
}

// batchOverhead is roughly the memory of a batch and one change beside their bytes.
const batchOverhead = 200

func batchBytes(b storage.Batch) int {
	n := batchOverhead * len(b.Changes)
	for i := range b.Changes {
		c := &b.Changes[i]
		n += len(c.Key) + len(c.Value)
	}
	return n
}

// push adds the next batch and drops the oldest ones beyond the budget. It drops a batch larger
// than the whole budget at once.
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

// since returns the batches after a revision, or false if some are gone. The slice is valid until
// the ring changes.
func (r *ring) since(after storage.Revision) ([]storage.Batch, bool) {
	if after < r.after {
		return nil, false
	}
	all := r.batches[r.first:]
	i := sort.Search(len(all), func(i int) bool { return all[i].Revision > after })
	return all[i:], true
}
