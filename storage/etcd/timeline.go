package etcd

import (
	"encoding/json"
	"fmt"
	"sort"

	"github.com/kindwright/kindwright/storage"
)

// perCommit is how many revisions a commit can take. It is also etcd's default for --max-txn-ops.
const perCommit = 128

// epoch says how revisions of etcd become revisions of the store, from one revision of etcd on. The
// commit at mod takes the revisions up to Base + 128 × mod.
type epoch struct {
	From int64  `json:"from,omitempty"` // 0 in a new epoch: the revision at which it was stored
	Base uint64 `json:"base"`
}

func (e epoch) last(mod int64) storage.Revision {
	return storage.Revision(e.Base + perCommit*uint64(mod))
}

// timeline is all epochs of a store, oldest first. It is never changed.
type timeline struct {
	stored int64 // the revision of etcd at which it was stored
	epochs []epoch
}

// decodeTimeline reads a timeline that was stored at a revision of etcd.
func decodeTimeline(value []byte, stored int64) (*timeline, error) {
	t := &timeline{stored: stored}
	if err := json.Unmarshal(value, &t.epochs); err != nil {
		return nil, err
	}
	if len(t.epochs) == 0 {
		return nil, fmt.Errorf("%q has no epoch", value)
	}
	if newest := &t.epochs[len(t.epochs)-1]; newest.From == 0 {
		newest.From = stored
	}
	for i := 1; i < len(t.epochs); i++ {
		if a, b := t.epochs[i-1], t.epochs[i]; a.From >= b.From || a.last(b.From) >= b.last(b.From) {
			return nil, fmt.Errorf("%q goes back", value)
		}
	}
	return t, nil
}

// advanced is the stored form of this timeline and one more epoch.
func (t *timeline) advanced(base uint64) ([]byte, error) {
	var epochs []epoch
	if t != nil {
		epochs = append(epochs, t.epochs...)
	}
	return json.Marshal(append(epochs, epoch{Base: base}))
}

// at returns the epoch of a revision of etcd.
func (t *timeline) at(mod int64) epoch {
	i := sort.Search(len(t.epochs), func(i int) bool { return t.epochs[i].From > mod })
	return t.epochs[max(i-1, 0)]
}

// last returns the last revision of the commit at mod.
func (t *timeline) last(mod int64) storage.Revision { return t.at(mod).last(mod) }

// first is the revision at which the store began.
func (t *timeline) first() storage.Revision { return t.epochs[0].last(t.epochs[0].From) }

// place is where a revision lies: within the 128 revisions of the commit at mod, and how far below
// the last of them.
type place struct {
	mod   int64
	below uint8
}

// whole returns the newest commit all of whose revisions are at or below the place.
func (p place) whole() int64 {
	if p.below > 0 {
		return p.mod - 1
	}
	return p.mod
}

// locate finds a revision. It fails with ErrCompacted for one from before the store, and for one
// that was lost when an older copy of etcd took the place of this one.
func (t *timeline) locate(rev storage.Revision) (place, error) {
	i := sort.Search(len(t.epochs), func(i int) bool { return t.epochs[i].last(t.epochs[i].From) > rev }) - 1
	if i < 0 {
		return place{}, storage.ErrCompacted
	}
	above := uint64(rev) - t.epochs[i].Base
	mods := (above + perCommit - 1) / perCommit
	if mods > 1<<62 {
		return place{}, storage.ErrFutureRevision
	}
	p := place{mod: int64(mods), below: uint8(mods*perCommit - above)}
	if i+1 < len(t.epochs) && p.mod >= t.epochs[i+1].From {
		return place{}, storage.ErrCompacted
	}
	return p, nil
}
