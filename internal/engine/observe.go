package engine

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/watch"
)

// Observation is the registration of an observer with an engine.
type Observation struct {
	of       meta.GroupResource
	observer watch.Observer
	at       atomic.Pointer[watch.Observation] // nil before the resource is installed
}

// Observe reports the objects of a resource to an observer, in their stored form, from the time the
// resource is installed until the engine ends. The observer learns of a change before the write
// that made it is answered; see watch.Observation.
func (e *Engine) Observe(of meta.GroupResource, o watch.Observer) (*Observation, error) {
	defer e.holdChanges()()
	one := &Observation{of: of, observer: o}
	e.observations = append(e.observations, one)
	for s := range e.Set().Stored() {
		if err := e.observe(s, one); err != nil {
			return nil, err
		}
	}
	return one, nil
}

// Attached reports whether the engine has, or had, the resource.
func (o *Observation) Attached() bool { return o.at.Load() != nil }

// Err returns nil if the observer knows everything that is visible; see watch.Observation.Err.
func (o *Observation) Err() error {
	at := o.at.Load()
	if at == nil {
		return fmt.Errorf("%s: the server does not have this resource", o.of)
	}
	if err := at.Err(); err != nil {
		return fmt.Errorf("%s: %w", o.of, err)
	}
	return nil
}

// observe attaches an observation to a resource if it is the one observed. The caller holds
// changes.
func (e *Engine) observe(s *Served, o *Observation) error {
	if s.Resource.GroupResource() != o.of || o.at.Load() != nil {
		return nil
	}
	at, err := e.dispatcher.Observe(s.Resource.StorageName, o.observer)
	if err != nil {
		return fmt.Errorf("observe %s: %w", o.of, err)
	}
	o.at.Store(at)
	if e.lifetime != nil {
		e.tell(e.lifetime, o)
	}
	return nil
}

// tell runs an observation until ctx ends.
func (e *Engine) tell(ctx context.Context, o *Observation) {
	if at := o.at.Load(); at != nil {
		e.running.Go(func() { at.Run(ctx) })
	}
}
