package watch

import (
	"errors"
	"fmt"
	"iter"

	"github.com/kindwright/kindwright/storage"
)

// Observer is told what all caches of a dispatcher show, at the moment that they show it: for what
// has to know of every object, such as an index of owners. Nobody finds an entry in a cache of
// which the observer has not been told.
//
// Its methods are called from the dispatcher and from [Dispatcher.Add], one at a time for each
// kind, with locks held: they must return soon and call nothing of the dispatcher's or of a
// cache's. Entries may be kept.
type Observer interface {
	// Filled is told that a kind's objects are these and no others: when it was added, and again
	// after changes were lost. prefix is what their storage keys begin with.
	Filled(prefix string, entries iter.Seq[*Entry])

	// Changed is told what one object was and is; prev is nil for a new one, next for one that is
	// gone, never both.
	Changed(prev, next *Entry)
}

// WithObserver has the dispatcher tell o. A fork does not call Filled for the kinds that it takes
// over.
func WithObserver(o Observer) Option {
	return func(d *Dispatcher) { d.observer = o }
}

// values are the entries of a listing.
func (l *listing) values() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		for _, entry := range l.tree.Ascend("") {
			if !yield(entry) {
				return
			}
		}
	}
}

// Complete returns nil when every kind shows all that was committed up to a revision. Otherwise it
// says why not: the revision is not published yet, a kind is being added, or has stopped.
func (d *Dispatcher) Complete(revision storage.Revision) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at := d.Published(); at < revision {
		return fmt.Errorf("watch: revision %d is not published yet, %d is", revision, at)
	}
	var problems []error
	for _, c := range d.caches {
		if c.loading != nil {
			problems = append(problems, fmt.Errorf("watch: %s is being loaded", c.config.StorageName))
		} else if err := c.Err(); err != nil {
			problems = append(problems, fmt.Errorf("watch: %s is not followed any more: %w", c.config.StorageName, err))
		}
	}
	return errors.Join(problems...)
}
