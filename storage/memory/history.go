package memory

import (
	"sort"

	"github.com/kindwright/kindwright/storage"
)

// version is the state of a key from one revision on.
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

// history is the versions of one key, oldest first. A history in the map is never empty.
type history struct {
	versions []version
}

func (h *history) append(v version) { h.versions = append(h.versions, v) }

// newest returns the newest version. For a key without history it is the zero version, which has no
// record.
func (h *history) newest() version {
	if h == nil {
		return version{}
	}
	return h.versions[len(h.versions)-1]
}

// at returns the record of the key at a revision, or nil if it did not exist.
func (h *history) at(rev storage.Revision) *storage.Record {
	n := len(h.versions)
	if h.versions[n-1].revision <= rev {
		return h.versions[n-1].record // most lists are of the current revision
	}
	i := sort.Search(n, func(i int) bool { return h.versions[i].revision > rev })
	if i == 0 {
		return nil
	}
	return h.versions[i-1].record
}

// excess returns how many versions no read at or above compacted can see: all but the newest one at
// or below it, and that one too if it is a deletion.
func (h *history) excess(compacted storage.Revision) int {
	keep := sort.Search(len(h.versions), func(i int) bool { return h.versions[i].revision > compacted })
	if keep > 0 && h.versions[keep-1].record != nil {
		keep--
	}
	return keep
}

// trim drops the excess and reports whether the history is empty.
func (h *history) trim(compacted storage.Revision) (empty bool) {
	n := copy(h.versions, h.versions[h.excess(compacted):])
	clear(h.versions[n:])
	h.versions = h.versions[:n]
	return n == 0
}
