package ctxlock

import (
	"context"
	"sync"
)

// Mutex is held by one caller at a time. The zero Mutex is free. It must not be copied after use.
type Mutex struct {
	once sync.Once
	held chan struct{} // has an element while somebody holds the mutex
}

func (m *Mutex) init() { m.once.Do(func() { m.held = make(chan struct{}, 1) }) }

// Lock waits until the mutex is free, and takes it. If ctx ends first, it returns the cause, and the
// caller does not hold the mutex. A free mutex is taken even if ctx has ended.
func (m *Mutex) Lock(ctx context.Context) error {
	m.init()
	select {
	case m.held <- struct{}{}:
		return nil
	default:
	}
	select {
	case m.held <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Unlock frees the mutex. It panics if nobody holds it.
func (m *Mutex) Unlock() {
	m.init()
	select {
	case <-m.held:
	default:
		panic("ctxlock: unlock of a free mutex")
	}
}
