package engine

import (
	"context"
	"sync"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// Complete returns nil if the live views of all loaded resources show everything committed up to a
// revision. An object that is then not in them does not exist. It waits for the revision. A
// resource that is still being loaded or has stopped is an immediate error.
func (e *Engine) Complete(ctx context.Context, s *Served, revision storage.Revision) error {
	if err := s.Cache.WaitFor(ctx, revision); err != nil {
		return err
	}
	return e.dispatcher.Complete(revision)
}

// Renewed returns a channel that is closed at the next change of the set of resources.
func (e *Engine) Renewed() <-chan struct{} { return e.renewal.next() }

// observed returns the dispatcher option that reports to the engine's observer.
func (cfg *Config) observed() watch.Option {
	if cfg.Observer == nil {
		return nil
	}
	return watch.WithObserver(cfg.Observer)
}

// renewal announces changes of the set. The zero value is ready.
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
