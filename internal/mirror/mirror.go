package mirror

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/internal/pause"
	"github.com/kindwright/kindwright/meta"
)

// Object is what a mirror must know of an object. Types that embed meta.ObjectMeta have it.
type Object interface {
	Key() meta.Key
}

// Config says what is followed.
type Config[T any] struct {
	Client    *client.Client[T]
	Selection client.Selection

	// Changed hears that the state may have changed, the first time when it is complete. It may be nil.
	Changed func()

	// Failed hears why the collection cannot be followed, each time before a new attempt.
	Failed func(error)
}

// Mirror is a view of objects of another server. Its methods are safe for concurrent use.
type Mirror[T any, P interface {
	*T
	Object
}] struct {
	cfg    Config[T]
	synced chan struct{} // closed once the state is complete

	mu      sync.RWMutex
	objects map[meta.Key]*T // guarded by mu, as is failure; nobody modifies an object
	failure error
}

// MaxWait is how long a client of a mirror should wait at most, see [client.WithMaxWait]: what another
// server takes away must count here soon, also if it has asked to be left alone for a year.
const MaxWait = 30 * time.Second

// New makes a mirror. It follows nothing before [Mirror.Run].
func New[T any, P interface {
	*T
	Object
}](cfg Config[T]) *Mirror[T, P] {
	return &Mirror[T, P]{cfg: cfg, synced: make(chan struct{}), failure: errNotRead}
}

// The pauses before the next attempt, after an error that the client does not retry.
const (
	firstPause = time.Second
	maxPause   = MaxWait
)

// Run follows the objects until ctx ends.
func (m *Mirror[T, P]) Run(ctx context.Context) {
	wait := firstPause
	for ctx.Err() == nil {
		began := time.Now()
		err := m.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		m.mu.Lock()
		m.failure = err
		m.mu.Unlock()
		m.cfg.Failed(err)
		if time.Since(began) > maxPause {
			wait = firstPause
		}
		_ = pause.For(ctx, wait)
		wait = min(2*wait, maxPause)
	}
}

// follow reads one watch to its end.
func (m *Mirror[T, P]) follow(ctx context.Context) error {
	var fresh map[meta.Key]*T // a state that is not complete yet
	for event, err := range m.cfg.Client.Watch(ctx, m.cfg.Selection) {
		if err != nil {
			return err
		}
		switch event.Type {
		case client.Reset:
			fresh = map[meta.Key]*T{}
			continue
		case client.Synced:
			m.replace(fresh)
			fresh = nil
		case meta.Added, meta.Modified, meta.Deleted:
			if fresh != nil { // the objects after a reset
				fresh[P(event.Object).Key()] = event.Object
				continue
			}
			m.change(event.Type, event.Object)
		default:
			continue
		}
		if m.cfg.Changed != nil {
			m.cfg.Changed()
		}
	}
	return nil
}

// replace shows a complete state.
func (m *Mirror[T, P]) replace(objects map[meta.Key]*T) {
	m.mu.Lock()
	m.objects, m.failure = objects, nil
	m.mu.Unlock()
	select {
	case <-m.synced:
	default:
		close(m.synced)
	}
}

func (m *Mirror[T, P]) change(how meta.EventType, object *T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if how == meta.Deleted {
		delete(m.objects, P(object).Key())
		return
	}
	m.objects[P(object).Key()] = object
}

// Synced is closed once the state is complete.
func (m *Mirror[T, P]) Synced() <-chan struct{} { return m.synced }

// Get returns an object, which nobody may modify.
func (m *Mirror[T, P]) Get(key meta.Key) (*T, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	object, ok := m.objects[key]
	return object, ok
}

// All returns the objects, none of which anybody may modify.
func (m *Mirror[T, P]) All() map[meta.Key]*T {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return maps.Clone(m.objects)
}

// Err returns why the objects cannot be followed now, or nil. While the other server is away the
// client tries again by itself, which is no failure.
func (m *Mirror[T, P]) Err() error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.failure
}

var errNotRead = errors.New("they have not been read yet")
