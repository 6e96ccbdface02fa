package engine

import (
	"hash/maphash"
	"slices"
	"sync/atomic"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// Recent returns the frame of an event in the form that about names. build makes it; for a while all
// other watchers that ask for the same share it. The caller must not change the bytes, and must pass
// no event of a dry run, and no bookmark.
func (s *Served) Recent(event *watch.Event, about string, build func() ([]byte, error)) ([]byte, error) {
	key := recentKey{s.scope, event.Type, event.Revision, event.Entry.Revision(), about}
	return s.scope.recent.make(maphash.Comparable(s.scope.seed, key), key, build)
}

// recentBudget is how much of the budget of all encodings is for the frames of events. They are asked
// for by many at once and never again, so they must not displace what is asked for again.
const recentBudget = encodingBudget / 16

// recentSlots is how many frames are kept at most.
const recentSlots = 1 << 10

// recentKey names a frame: a version names one state of one object of a resource (design rule 1), but
// an event may show an older state at its own version.
type recentKey struct {
	scope           *scope
	event           meta.EventType
	revision, state storage.Revision
	about           string
}

type recentFrame struct {
	key   recentKey
	bytes []byte
}

func (f *recentFrame) size() int64 {
	if f == nil {
		return 0
	}
	return int64(encodingOverhead + cap(f.bytes))
}

// recent holds frames of the latest events, each in the slot that its hash names. Nobody waits for
// anybody: two watchers may build the same frame at once.
type recent struct {
	slots atomic.Pointer[[recentSlots]atomic.Pointer[recentFrame]] // made on first use
	bytes atomic.Int64                                             // of all slots
	hand  atomic.Uint32                                            // the slot that is emptied next when there is no room
}

func (r *recent) make(hash uint64, key recentKey, build func() ([]byte, error)) ([]byte, error) {
	slots := r.slots.Load()
	if slots == nil {
		r.slots.CompareAndSwap(nil, new([recentSlots]atomic.Pointer[recentFrame]))
		slots = r.slots.Load()
	}
	slot := &slots[hash%recentSlots]
	if f := slot.Load(); f != nil && f.key == key {
		return f.bytes, nil
	}
	b, err := build()
	if err != nil {
		return nil, err
	}
	f := &recentFrame{key, slices.Clone(b)} // of just its size
	if f.size() > recentBudget/8 {
		return b, nil
	}
	// The room is taken before the frame is there, so that all frames never need more than the budget.
	for range recentSlots {
		if r.bytes.Add(f.size()) <= recentBudget {
			r.bytes.Add(-slot.Swap(f).size())
			return f.bytes, nil
		}
		r.bytes.Add(-f.size())
		r.bytes.Add(-slots[r.hand.Add(1)%recentSlots].Swap(nil).size())
	}
	return f.bytes, nil
}
