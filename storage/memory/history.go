package memory

import (
	"sort"

	"github.com/kindwright/kindwright/storage"
)

// version is what a key was from one revision on.
type version struct {
	revision storage.Revision
	record   *storage.Record // nil: deleted. Never changed; the log points to it too
}

// actual is the revision of the record, 0 when there is none.
func (v version) actual() storage.Revision {
	if v.record == nil {
		return 0
	}
	return v.revision
}

// history is the versions of one key, oldest first. It is never empty while it
// is in the map.
type history struct {
	versions []version
}

func (h *history) append(v version) { h.versions = append(h.versions, v) }

// newest is the zero version, which has no record, for a key without history.
func (h *history) newest() version {
	if h == nil {
		return version{}
	}
	return h.versions[len(h.versions)-1]
}

// at is what the key was at a revision; nil if it did not exist.
func (h *history) at(rev storage.Revision) *storage.Record {
	n := len(h.versions)
	if h.versions[n-1].revision <= rev {
		return h.versions[n-1].record // the usual list is a list of now
	}
	i := sort.Search(n, func(i int) bool { return h.versions[i].revision > rev })
	if i == 0 {
		return nil
	}
	return h.versions[i-1].record
}

// excess is how many versions no read at or above compacted can see: all but the
// newest one at or below it, and that one too if it is a deletion.
func (h *history) excess(compacted storage.Revision) int {
	keep := sort.Search(len(h.versions), func(i int) bool { return h.versions[i].revision > compacted })
	if keep > 0 && h.versions[keep-1].record != nil {
		keep--
	}
	return keep
}

// trim forgets the excess and reports whether nothing is left.
func (h *history) trim(compacted storage.Revision) (empty bool) {
	n := copy(h.versions, h.versions[h.excess(compacted):])
	clear(h.versions[n:])
	h.versions = h.versions[:n]
	return n == 0
}
