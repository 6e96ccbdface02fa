package engine

import (
	"context"
	"sync"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// Complete returns nil when the live views of all resources that are loaded show everything that
// was committed up to a revision: what is not in them is not there. It waits for the revision; a
// resource that is being loaded or has stopped is an error at once.
func (e *Engine) Complete(ctx context.Context, s *Served, revision storage.Revision) error {
	if err := s.Cache.WaitFor(ctx, revision); err != nil {
		return err
	}
	return e.dispatcher.Complete(revision)
}

// Renewed returns a channel that is closed when the set of resources changes next.
func (e *Engine) Renewed() <-chan struct{} { return e.renewal.next() }

// observed is the option for a dispatcher that has the engine's observer told.
func (cfg *Config) observed() watch.Option {
	if cfg.Observer == nil {
		return nil
	}
	return watch.WithObserver(cfg.Observer)
}

// renewal tells of changes of the set. The zero value is ready.
type renewal struct {
	mu sync.Mutex
	ch chan struct{} // nil while nobody waits
}

func (r *renewal) next() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ch == nil {
		r.ch = make(chan struct{})
	}
	return r.ch
}

func (r *renewal) announce() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ch != nil {
		close(r.ch)
		r.ch = nil
	}
}
