package health

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
)

// Endpoint is a set of endpoints, so that one call can add a check to several of them.
type Endpoint uint8

// The endpoints, and all of them together.
const (
	Health Endpoint = 1 << iota // /healthz
	Live                        // /livez
	Ready                       // /readyz

	All = Health | Live | Ready
)

// DefaultTimeout is how long a request waits for its checks without [WithTimeout].
const DefaultTimeout = 10 * time.Second

// Option configures a [Registry].
type Option func(*Registry)

// WithLogger sets the logger for the reasons of failing checks: one line whenever a check's result
// changes. The check "log" tests the same logger. By default nothing is logged.
func WithLogger(l logr.Logger) Option { return func(r *Registry) { r.log = l } }

// WithTimeout sets how long a request waits for its checks; its own deadline applies as well. Zero
// or less means [DefaultTimeout].
func WithTimeout(d time.Duration) Option {
	return func(r *Registry) {
		if d > 0 {
			r.timeout = d
		}
	}
}

// WithLivezGrace sets how long after [Registry.Start] an unfinished post-start hook passes on
// /livez. The default is 0. Source: HEALTH-03.
func WithLivezGrace(d time.Duration) Option { return func(r *Registry) { r.grace = d } }

// WithResult sets a function that is called with each result of a check that a probe has seen:
// the name of the check and that of the endpoint. It must allow concurrent calls. By default,
// nobody is told.
func WithResult(told func(check, endpoint string, passed bool)) Option {
	return func(r *Registry) {
		if told != nil {
			r.told = told
		}
	}
}

// Registry holds and serves the checks of one server; see [Registry.Handler]. Its methods are safe
// for concurrent use.
type Registry struct {
	log     logr.Logger
	timeout time.Duration
	grace   time.Duration
	told    func(check, endpoint string, passed bool)

	stopping atomic.Bool
	started  atomic.Pointer[time.Time] // nil until Start
	running  sync.WaitGroup            // the goroutines of checks

	mu     sync.RWMutex
	probes [3][]*probe // by endpoint, in the order in which they are printed; guarded by mu
}

// New returns a registry with the checks "ping" and "log" on every endpoint and "shutdown" on
// /readyz.
func New(opts ...Option) *Registry {
	r := &Registry{log: logr.Discard(), timeout: DefaultTimeout, told: func(string, string, bool) {}}
	for _, o := range opts {
		if o != nil {
			o(r)
		}
	}
	r.insert(All, Ping())
	r.insert(All, Log(r.log))
	r.insert(Ready, Check{Name: NameShutdown, Check: r.checkShutdown})
	return r
}

// Add adds checks to every endpoint of the set. It adds none of them, and returns an error, if a
// check has no function, a name cannot be a path (see [Check]), or one of the endpoints already has
// a check of that name.
func (r *Registry) Add(to Endpoint, checks ...Check) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, c := range checks {
		if err := r.acceptable(to, c); err != nil {
			return err
		}
		if slices.ContainsFunc(checks[:i], func(b Check) bool { return b.Name == c.Name }) {
			return fmt.Errorf("health: check %q: name given twice", c.Name)
		}
	}
	for _, c := range checks {
		r.insert(to, c)
	}
	return nil
}

// AddPostStartHook adds the check "poststarthook/<name>" to every endpoint. It fails until done is
// called, except on /livez during the grace period. done may be called more than once. Source:
// HEALTH-03, HEALTH-16.
func (r *Registry) AddPostStartHook(name string) (done func(), err error) {
	var finished atomic.Bool
	strict := Check{Name: PostStartHookPrefix + name, Check: func(context.Context) error {
		if finished.Load() {
			return nil
		}
		return errors.New("not finished")
	}}
	lenient := Check{Name: strict.Name, Check: func(ctx context.Context) error {
		if r.inGrace() {
			return nil
		}
		return strict.Check(ctx)
	}}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.acceptable(All, strict); err != nil {
		return nil, err
	}
	r.insert(Health|Ready, strict)
	r.insert(Live, lenient)
	return func() { finished.Store(true) }, nil
}

// Start begins the grace period of post-start hooks. Only the first call counts.
func (r *Registry) Start() {
	now := time.Now()
	r.started.CompareAndSwap(nil, &now)
}

// ShutDown makes the check "shutdown", and so /readyz, fail from now on. The other endpoints
// continue as before. It does not start a shutdown itself. Source: HEALTH-05, HEALTH-18.
func (r *Registry) ShutDown() { r.stopping.Store(true) }

// Wait returns when no check is running. A check that respects its context ends within the time-out
// of the request that started it. Call Wait after the server has stopped serving requests.
func (r *Registry) Wait() { r.running.Wait() }

func (r *Registry) checkShutdown(context.Context) error {
	if r.stopping.Load() {
		return errors.New("process is shutting down")
	}
	return nil
}

func (r *Registry) inGrace() bool {
	started := r.started.Load()
	return r.grace > 0 && (started == nil || time.Since(*started) < r.grace)
}

// acceptable is called with mu held.
func (r *Registry) acceptable(to Endpoint, c Check) error {
	if why := checkName(c.Name); why != "" {
		return fmt.Errorf("health: check %q: name %s", c.Name, why)
	}
	if c.Check == nil {
		return fmt.Errorf("health: check %q: no function", c.Name)
	}
	if to == 0 || to&^All != 0 {
		return fmt.Errorf("health: check %q: unknown endpoint %d", c.Name, to)
	}
	for i, e := range endpoints {
		if to&e.set != 0 && r.find(i, c.Name) != nil {
			return fmt.Errorf("health: check %q: /%s has one of that name", c.Name, e.name)
		}
	}
	return nil
}

// insert is called with mu held, or before the registry is shared. "shutdown" stays last, where
// people look for it.
func (r *Registry) insert(to Endpoint, c Check) {
	p := &probe{Check: c}
	for i, e := range endpoints {
		if to&e.set == 0 {
			continue
		}
		list := slices.Clone(r.probes[i]) // readers use the old one
		if n := len(list); n > 0 && list[n-1].Name == NameShutdown {
			r.probes[i] = slices.Insert(list, n-1, p)
			continue
		}
		r.probes[i] = append(list, p)
	}
}

// find is called with mu held.
func (r *Registry) find(endpoint int, name string) *probe {
	for _, p := range r.probes[endpoint] {
		if p.Name == name {
			return p
		}
	}
	return nil
}
