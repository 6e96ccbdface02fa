package watchtest

import (
	"slices"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// Recording is the request of one watcher and everything it received, in order. It belongs to one
// goroutine.
type Recording struct {
	// Match reports whether the watcher selects an object. Do not call the filter under test here,
	// or the check cannot find its bugs.
	Match func(*watch.Entry) bool

	// From is the revision after which the watch starts, or the revision of its snapshot. If only
	// the server knows it, because the client asked for the newest state, it lies between From and
	// By, where By is a revision that the store had reached when the response began. If By is below
	// From, the revision is exactly From.
	From, By storage.Revision

	// Initial is set if the watch starts with the objects of a snapshot. A bookmark marks their end
	// unless Unmarked is set; the check then finds the end itself.
	Initial, Unmarked bool

	// NoBookmarks is set if the client did not request bookmarks. Then there must be none. Source:
	// WATCH-23.
	NoBookmarks bool

	// Show appends the JSON that the watcher must see for a state in an event of this revision. nil
	// means the whole object. Documents are equal if they have the same meaning.
	Show func(dst []byte, state *watch.Entry, revision storage.Revision) []byte

	steps []Event
	end   ending
	limit storage.Revision // the revision in the error
}

// ending says how the server ended a watch.
type ending int

const (
	open     ending = iota // not ended, or without an error
	expired                // 410: history is gone up to limit
	tooLarge               // 504: the store had only reached limit
)

// Tell adds events that a client has parsed. For errors use Expired and TooLarge.
func (r *Recording) Tell(events ...Event) { r.steps = append(r.steps, events...) }

// Events adds the result of a cursor's Next.
func (r *Recording) Events(events ...watch.Event) {
	for _, e := range events {
		r.steps = append(r.steps, seen(e))
	}
}

// Bookmark adds a revision that a cursor's Progress returned and a client received.
func (r *Recording) Bookmark(revision storage.Revision) {
	r.steps = append(r.steps, Event{Type: meta.Bookmark, Revision: revision})
}

// Expired records that the watch ended with 410, and up to which revision the store had compacted
// its history by then. Source: WATCH-16.
func (r *Recording) Expired(compacted storage.Revision) { r.end, r.limit = expired, compacted }

// TooLarge records that the watch ended with 504 because its version did not exist yet, and the
// store's revision before the request. Source: WATCH-19.
func (r *Recording) TooLarge(current storage.Revision) { r.end, r.limit = tooLarge, current }

// Told returns the version from which the watcher can resume, or 0 if it must start over with the
// current state.
func (r *Recording) Told() storage.Revision {
	if r.end == expired {
		return 0
	}
	last := r.From
	if n := len(r.steps); n > 0 {
		last = r.steps[n-1].Revision
	}
	switch {
	case !r.Initial && (r.By <= r.From || len(r.steps) > 0):
		return last
	case r.Initial && !r.Unmarked && slices.ContainsFunc(r.steps, func(e Event) bool { return e.Type == meta.Bookmark }):
		return last
	}
	return 0
}

// Len returns the number of events and bookmarks.
func (r *Recording) Len() int { return len(r.steps) }

// IsBookmark reports whether step i is an ordinary bookmark, which is optional, and not the mark
// after the initial events.
func (r *Recording) IsBookmark(i int) bool {
	return r.steps[i].Type == meta.Bookmark && !r.steps[i].End
}

// Altered returns a copy with the steps that change returns, to prove that a check notices the
// difference.
func (r *Recording) Altered(change func(steps []Event) []Event) *Recording {
	c := *r
	c.steps = change(slices.Clone(r.steps))
	return &c
}

// Without returns a copy without step i.
func (r *Recording) Without(i int) *Recording {
	return r.Altered(func(steps []Event) []Event { return slices.Delete(steps, i, i+1) })
}

// Swapped returns a copy with step i and the next one exchanged.
func (r *Recording) Swapped(i int) *Recording {
	return r.Altered(func(steps []Event) []Event {
		steps[i], steps[i+1] = steps[i+1], steps[i]
		return steps
	})
}
