package watchtest

import (
	"slices"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// Recording is what one watcher asked for and was told, in order. It belongs to one goroutine.
type Recording struct {
	// Match says which objects the watcher asked for. It should be written without the filter's own
	// code, or the check checks nothing of that.
	Match func(*watch.Entry) bool

	// From is the revision that the watch begins after, or that of the snapshot it begins with.
	// Where only the server knows, because the client asked for what is newest, it lies between
	// From and By: By is a revision that the store had reached when the answer began. By below From
	// means From exactly.
	From, By storage.Revision

	// Initial is set for a watch that begins with the objects of a snapshot. Their end is marked by
	// a bookmark, unless Unmarked is set; then the check works out where it is.
	Initial, Unmarked bool

	// NoBookmarks is set when the client did not ask for any: then there must be none (WATCH-23).
	NoBookmarks bool

	// Show appends the JSON that the watcher must see of a state in an event of this revision; nil
	// is the whole object. JSON is compared by what it means, and by its bytes first.
	Show func(dst []byte, state *watch.Entry, revision storage.Revision) []byte

	steps []Event
	end   ending
	limit storage.Revision // of what the ending says
}

// ending is how the server ended a watch.
type ending int

const (
	open     ending = iota // it did not, or without a word
	expired                // changes are gone: limit is how far
	tooLarge               // the version is not there yet: limit is what was
)

// Tell notes events as a client has parsed them. Errors are not among them, see Expired and
// TooLarge.
func (r *Recording) Tell(events ...Event) { r.steps = append(r.steps, events...) }

// Events notes what Next of a cursor returned.
func (r *Recording) Events(events ...watch.Event) {
	for _, e := range events {
		r.steps = append(r.steps, seen(e))
	}
}

// Bookmark notes a revision that Progress of a cursor returned and a client was told.
func (r *Recording) Bookmark(revision storage.Revision) {
	r.steps = append(r.steps, Event{Type: meta.Bookmark, Revision: revision})
}

// Expired notes that the watch ended with 410, and how far the store's history was gone by then
// (WATCH-16).
func (r *Recording) Expired(compacted storage.Revision) { r.end, r.limit = expired, compacted }

// TooLarge notes that the watch ended with 504 because its version was not there yet, and what the
// store's revision was before the watch was asked for (WATCH-19).
func (r *Recording) TooLarge(current storage.Revision) { r.end, r.limit = tooLarge, current }

// Told returns the version that the watcher can go on from, 0 when it has none and must begin with
// the state again.
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

// Len returns how many events and bookmarks were noted.
func (r *Recording) Len() int { return len(r.steps) }

// IsBookmark reports whether step i is a bookmark, and not the mark at the end of the initial
// events: one that need not be there.
func (r *Recording) IsBookmark(i int) bool {
	return r.steps[i].Type == meta.Bookmark && !r.steps[i].End
}

// Altered returns a copy in which change has had its way with the steps, to show that a check would
// notice.
func (r *Recording) Altered(change func(steps []Event) []Event) *Recording {
	c := *r
	c.steps = change(slices.Clone(r.steps))
	return &c
}

// Without returns a copy that lacks one step.
func (r *Recording) Without(i int) *Recording {
	return r.Altered(func(steps []Event) []Event { return slices.Delete(steps, i, i+1) })
}

// Swapped returns a copy in which step i has changed places with the one after it.
func (r *Recording) Swapped(i int) *Recording {
	return r.Altered(func(steps []Event) []Event {
		steps[i], steps[i+1] = steps[i+1], steps[i]
		return steps
	})
}
