package watch

import (
	"strings"

	"github.com/kindwright/kindwright/storage"
)

// Subscriber is told of raw changes below a key prefix, for what is kept in the store and is no kind: system records,
// or a whole store's bookkeeping. See [Dispatcher.Subscribe].
type Subscriber struct {
	// Prefix is what the keys begin with; "" is everything. It ends in "/" otherwise.
	Prefix string

	// Changed is called with every commit's changes below Prefix, in the order of revisions and before the revision is
	// published: who waits for a revision finds that subscribers have seen it. Required. It is called from the
	// dispatcher, which stands still meanwhile: it must return soon and call nothing of the dispatcher's. The changes
	// are shared and not to be changed.
	Changed func(storage.Batch)

	// Lost is called when changes up to a revision were compacted before they were seen; those above it follow. Who has
	// a view of its own reads the store again, at that revision or later. May be nil. The rules of Changed hold.
	Lost func(storage.Revision)
}

// Subscribe tells s of every change after the returned revision, until stop is called. What is there at that revision
// (0: the dispatcher does not run yet; then of every change from its start on) the caller reads from the store. Stop
// returns when no call is under way any more; it may be called again, but not from within s.
func (d *Dispatcher) Subscribe(s Subscriber) (from storage.Revision, stop func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.subscribers[&s] = struct{}{}
	return d.Published(), func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.subscribers, &s)
	}
}

func (s *Subscriber) show(batch *storage.Batch) {
	if below := changesBelow(s.Prefix, batch.Changes); len(below) > 0 {
		s.Changed(storage.Batch{Revision: batch.Revision, Changes: below, Time: batch.Time})
	}
}

func (s *Subscriber) lost(revision storage.Revision) {
	if s.Lost != nil {
		s.Lost(revision)
	}
}

// changesBelow returns the changes to keys with a prefix: the same slice when that is all of them.
func changesBelow(prefix string, changes []storage.Change) []storage.Change {
	var below []storage.Change
	for i := range changes {
		if strings.HasPrefix(changes[i].Key, prefix) {
			below = append(below, changes[i])
		}
	}
	return below
}
