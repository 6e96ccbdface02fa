package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/protobuf"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// Config is what an Engine works with. Only Store is required.
type Config struct {
	Store       *storage.Store
	GroupDomain string // the domain of the system's own groups; default "k8s.io" (MODEL-03)
	Admission   *admission.Chain
	Authorizer  authz.Authorizer       // for plugins that ask what a user may do; default: nobody may do anything
	Gate        registry.NamespaceGate // nil: no namespace objects, every namespace exists
	Logger      logr.Logger

	// History is how long watches and continue tokens may look back (LIM-01, LIM-02). Default 5 minutes.
	History time.Duration

	// LogBytes is how much of each resource's changes is kept in memory for watches; see watch.Config.
	LogBytes int

	// ResetByEmptyList makes an update with an empty managedFields list reset who owns what, as kube-apiserver does (READ-03). By
	// default only a list with one empty entry does.
	ResetByEmptyList bool

	// Serves says which resources clients can ask for (VER-06); what it excludes is kept, as with Resource.Unserved. Nil serves
	// what is not optional. It is asked when a resource is installed.
	Serves func(*registry.Resource) bool

	// Migration says which objects are written anew after their stored form has changed.
	Migration registry.Migration

	// Observer, if not nil, is told of every object that the live views show, such as a garbage collector.
	Observer watch.Observer

	Now  func() time.Time // time stamps of objects; default time.Now
	Rand io.Reader        // uids, generated names, keys; default crypto/rand
}

// Engine serves the resources of one Set over one store. All methods are safe for concurrent use.
type Engine struct {
	cfg        Config
	dispatcher *watch.Dispatcher
	tokens     *tokenSigner
	set        atomic.Pointer[Set]
	types      atomic.Pointer[typeIndex]
	shapes     *shapes
	renewal    renewal
	texts      *watch.Texts // nil where the store holds the objects in memory as they are
	migrations *migrations
	messages   *protobuf.Types // of all kinds, so that a Go type which occurs in many is described once

	changes      sync.Mutex // serialises Install, Remove and Observe; never held while serving
	observations []*Observation

	running sync.WaitGroup
	started atomic.Bool

	// lifetime is the context of Start: what is installed later works as long.
	lifetime context.Context
}

// New checks the configuration. It starts nothing and reads nothing.
func New(cfg Config) (*Engine, error) {
	if cfg.Store == nil {
		return nil, errors.New("registry: Config.Store is required")
	}
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	e := &Engine{cfg: cfg, shapes: newShapes(), migrations: newMigrations(), messages: &protobuf.Types{}}
	e.attach(cfg.Store, watch.NewDispatcher(cfg.Store, watch.WithLogger(cfg.Logger), cfg.observed()))
	e.set.Store(&Set{})
	return e, nil
}

// complete checks what was given and fills in the rest.
func (cfg *Config) complete() error {
	if cfg.GroupDomain == "" {
		cfg.GroupDomain = "k8s.io"
	}
	if why := meta.CheckDNSSubdomain(cfg.GroupDomain); why != "" {
		return fmt.Errorf("registry: Config.GroupDomain %q: %s", cfg.GroupDomain, why)
	}
	if cfg.History < 0 {
		return fmt.Errorf("registry: Config.History %s is negative", cfg.History)
	}
	if cfg.History == 0 {
		cfg.History = 5 * time.Minute
	}
	if cfg.Serves == nil {
		cfg.Serves = func(r *registry.Resource) bool { return !r.Optional }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Authorizer == nil {
		cfg.Authorizer = authz.Union()
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.Reader
	}
	return nil
}

// attach gives the engine its store and what follows it.
func (e *Engine) attach(store *storage.Store, d *watch.Dispatcher) {
	e.cfg.Store, e.dispatcher = store, d
	e.tokens = &tokenSigner{store: store, rand: e.cfg.Rand, domain: e.cfg.GroupDomain}
	if s, ok := storage.As[storage.Resident](store); !ok || !s.Resident() {
		e.texts = watch.NewTexts()
	}
}

// GroupDomain returns the domain of the system's own groups.
func (e *Engine) GroupDomain() string { return e.cfg.GroupDomain }

// Now returns the engine's time.
func (e *Engine) Now() time.Time { return e.cfg.Now() }

// Set returns the resources being served at this moment.
func (e *Engine) Set() *Set { return e.set.Load() }

// Logger returns the engine's logger.
func (e *Engine) Logger() logr.Logger { return e.cfg.Logger }

// Store returns the store the engine works on.
func (e *Engine) Store() *storage.Store { return e.cfg.Store }

// Start begins following the store and keeping its history within the window, until ctx ends; Wait then returns. It
// fails when the store cannot be read.
func (e *Engine) Start(ctx context.Context) error {
	if !e.started.CompareAndSwap(false, true) {
		return errors.New("registry: the engine was started before")
	}
	if err := e.tokens.load(ctx); err != nil {
		return fmt.Errorf("load the keys of continue tokens: %w", err)
	}
	e.changes.Lock()
	e.lifetime = ctx
	for _, o := range e.observations {
		e.tell(ctx, o)
	}
	e.changes.Unlock()
	e.running.Go(func() {
		if err := e.dispatcher.Run(ctx); err != nil && ctx.Err() == nil {
			e.cfg.Logger.Error(err, "the live view of the store has ended")
		}
	})
	e.running.Go(func() {
		every := max(e.cfg.History/10, time.Millisecond)
		if err := e.cfg.Store.Retain(ctx, e.cfg.History, every); err != nil && ctx.Err() == nil {
			e.cfg.Logger.Error(err, "history is no longer trimmed")
		}
	})
	for s := range e.Set().Stored() { // of a fork; of others nothing is served yet
		e.follow(ctx, s)
	}
	e.running.Go(func() { e.migrate(ctx) })
	return e.dispatcher.AwaitLive(ctx) // an engine that has started is ready
}

// Wait blocks until everything that Start began has ended.
func (e *Engine) Wait() { e.running.Wait() }

// Ready says why the engine cannot serve consistent answers, nil when it can.
func (e *Engine) Ready() error {
	if !e.started.Load() {
		return errors.New("not started")
	}
	return e.dispatcher.Ready()
}
