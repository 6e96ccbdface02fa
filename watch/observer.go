package watch

import (
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"

	"github.com/kindwright/kindwright/storage"
)

// Observer receives everything that the caches of a dispatcher show, just before they show it. It
// is for code that must know every object, such as an index of owners.
//
// Its methods are called from the dispatcher and from [Dispatcher.Add], one at a time per kind,
// with locks held. They must return quickly and must not call the dispatcher or a cache. They may
// keep the entries.
type Observer interface {
	// Filled reports the complete set of a kind's objects: when it was added, and again after
	// changes were lost. All their storage keys start with prefix.
	Filled(prefix string, entries iter.Seq[*Entry])

	// Changed reports the previous and the next state of one object. prev is nil for a new object,
	// next for a deleted one; they are never both nil.
	Changed(prev, next *Entry)
}

// WithObserver sets the observer. If Changed panics, Filled is called. A fork does not call Filled
// for the kinds that it takes over.
func WithObserver(o Observer) Option {
	return func(d *Dispatcher) { d.observer = o }
}

// changed tells the observer what changed, and reports whether it did not panic.
func (d *Dispatcher) changed(prefix string, prev, next *Entry) (told bool) {
	defer d.survive(prefix)
	d.observer.Changed(prev, next)
	return true
}

// filled tells the observer of all objects of a kind.
func (d *Dispatcher) filled(prefix string, entries []*Entry) {
	defer d.survive(prefix)
	d.observer.Filled(prefix, slices.Values(entries))
}

// survive logs a panic of the observer, which would end the program otherwise.
func (d *Dispatcher) survive(prefix string) {
	if v := recover(); v != nil {
		err := fmt.Errorf("the observer panicked: %v\n%s", v, debug.Stack())
		d.logger.Error(err, "An observer has failed.", "prefix", prefix)
	}
}

// Complete returns nil if every kind shows all commits up to a revision. Otherwise the error says
// why not: the revision is not published yet, or a kind is being added or has stopped.
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
