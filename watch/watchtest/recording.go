package watchtest

import (
	"slices"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// Recording is what one watcher was told, in order.
type Recording struct {
	// Match says what the watcher asked for. It should be written without the filter's own code, or the check checks
	// nothing of that.
	Match func(*watch.Entry) bool
	// From is the revision the watch began after, or that of its snapshot.
	From storage.Revision
	// Initial is set for a watch that begins with the objects of a snapshot.
	Initial bool

	steps []step
}

type step struct {
	event    watch.Event
	bookmark bool // Progress was asked; only event.Revision counts
}

// Events notes what Next returned.
func (r *Recording) Events(events ...watch.Event) {
	for _, e := range events {
		r.steps = append(r.steps, step{event: e})
	}
}

// Bookmark notes a revision that Progress returned and a client was told.
func (r *Recording) Bookmark(revision storage.Revision) {
	r.steps = append(r.steps, step{event: watch.Event{Revision: revision}, bookmark: true})
}

// Len returns how many events and bookmarks were noted.
func (r *Recording) Len() int { return len(r.steps) }

// Without returns a copy that lacks one step, to show that a check would notice.
func (r *Recording) Without(i int) *Recording {
	c := *r
	c.steps = slices.Delete(slices.Clone(r.steps), i, i+1)
	return &c
}

// Swapped returns a copy in which step i has changed places with the one after it, to show that a check would notice.
func (r *Recording) Swapped(i int) *Recording {
	c := *r
	c.steps = slices.Clone(r.steps)
	c.steps[i], c.steps[i+1] = c.steps[i+1], c.steps[i]
	return &c
}

// IsBookmark reports whether step i is a bookmark.
func (r *Recording) IsBookmark(i int) bool { return r.steps[i].bookmark }
