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
	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/internal/ctxlock"
	"github.com/kindwright/kindwright/internal/forms"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/lead"
	"github.com/kindwright/kindwright/internal/protobuf"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// Config configures an Engine. Only Store is required.
type Config struct {
	Store       *storage.Store
	GroupDomain string // the domain of the system's own groups; default "k8s.io" (MODEL-03)
	Admission   *admission.Chain
	Authorizer  authz.Authorizer        // for plugins that check a user's permissions; default: denies everything
	Gate        admission.NamespaceGate // nil: no namespace objects, every namespace exists
	Logger      logr.Logger

	// History is how long watches and continue tokens may look back (LIM-01, LIM-02). Default 5
	// minutes.
	History time.Duration

	// LogBytes limits the memory that keeps the changes of each resource for watches; see
	// watch.CacheConfig.
	LogBytes int

	// VerifyEvery is how often the live views are compared with the store. Default 5 minutes.
	VerifyEvery time.Duration

	// ResetByEmptyList lets an update with an empty managedFields list reset the owners of all
	// fields, as kube-apiserver does (READ-03) for kinds with a Go type. By default only a list with one
	// empty entry does.
	ResetByEmptyList bool

	// WrongTypeIsBadRequest answers a create and an update with 400 if a value has the wrong JSON
	// type, as kube-apiserver does for kinds with a Go type. By default the answer is 422 with
	// every such field.
	WrongTypeIsBadRequest bool

	// DeletionIsImmutable refuses an update that says when an object is to be deleted, as
	// kube-apiserver does. By default what clients say of it is dropped (META-06).
	DeletionIsImmutable bool

	// LenientPatches reads JSON patches of clients as kube-apiserver does (patch.Options.Lenient). By
	// default they are read as RFC 6902 says (PATCH-06).
	LenientPatches bool

	// Prices are what the rules in schemas cost.
	Prices cel.Prices

	// Compiled knows rules that were compiled already. It may be nil.
	Compiled *cel.Compiled

	// Serves selects the resources that clients can ask for (VER-06). A resource that it excludes
	// is kept, as with Resource.Unserved. Nil serves every resource that is not optional. It is
	// called when a resource is installed.
	Serves func(*registry.Resource) bool

	// Migration selects the objects that are rewritten after their stored form has changed.
	Migration Migration

	// Leadership is how one of the processes on a store is chosen for the work in the background. The
	// engine adds the store.
	Leadership lead.Config

	// Observer, if not nil, receives every object that the live views show. A garbage collector is
	// an example.
	Observer watch.Observer

	// Check, if not nil, is asked about each read and write of objects that a client asked for, at the
	// moment when the engine knows what it reads or writes. Its error ends the request.
	Check func(ctx context.Context, what Action) error

	Now  func() time.Time // for time stamps of objects; default time.Now
	Rand io.Reader        // for uids, generated names and keys; default crypto/rand
}

// Engine serves the resources of one Set over one store. All methods are safe for concurrent use.
type Engine struct {
	cfg        Config
	dispatcher *watch.Dispatcher
	leader     *lead.Leader
	agreement  *forms.Agreement // nil on a store of one process
	tokens     *tokenSigner
	set        atomic.Pointer[Set]
	types      atomic.Pointer[typeIndex]
	encodings  *encodings
	renewal    renewal
	admitted   admitted
	kept       json.Kept    // what managers own, decoded, between writes
	texts      *watch.Texts // nil if the store itself keeps the objects in memory
	migrations *migrations
	turns      turns
	messages   *protobuf.Types // shared by all kinds, so that a Go type used by many is described once
	lists      companionLists
	elsewhere  atomic.Pointer[Elsewhere] // nil if no other server has objects in the namespaces

	changes      ctxlock.Mutex                // serialises Install, Remove and Observe; never held while serving
	drafts       map[*registry.Resource]*Kind // what Preview compiled, until the first change; guarded by changes
	observations []*Observation

	running sync.WaitGroup
	started atomic.Bool

	// lifetime is the context of Start. The work of resources installed later ends with it, too.
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
	e := &Engine{cfg: cfg, encodings: newEncodings(), migrations: newMigrations(), messages: &protobuf.Types{}}
	e.attach(cfg.Store, watch.NewDispatcher(cfg.Store, watch.WithLogger(cfg.Logger), cfg.observed()))
	e.set.Store((&Set{}).edit().done())
	return e, nil
}

// complete checks the configuration and fills in defaults.
func (cfg *Config) complete() error {
	if cfg.GroupDomain == "" {
		cfg.GroupDomain = "k8s.io"
	}
	if err := cfg.Leadership.Check(); err != nil {
		return fmt.Errorf("registry: Config.Leadership: %w", err)
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
	if cfg.VerifyEvery <= 0 {
		cfg.VerifyEvery = defaultVerifyEvery
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

// attach connects the engine with its store and the dispatcher that follows the store.
func (e *Engine) attach(store *storage.Store, d *watch.Dispatcher) {
	e.lists = companionLists{create: writeSteps, remove: deleteSteps}
	e.cfg.Store, e.dispatcher = store, d
	leadership := e.cfg.Leadership
	leadership.Store, leadership.Logger = store, e.cfg.Logger.WithName("leader")
	e.leader = lead.New(leadership)
	e.agreement = forms.New(forms.Config{
		Store: store, Logger: e.cfg.Logger.WithName("forms"), Settled: e.settled,
		Beat: leadership.Beat, Patience: 3 * leadership.Patience,
	})
	e.tokens = &tokenSigner{
		store: store, rand: e.cfg.Rand, domain: e.cfg.GroupDomain, log: e.cfg.Logger, history: e.cfg.History,
	}
	if s, ok := storage.As[storage.Resident](store); !ok || !s.Resident() {
		e.texts = watch.NewTexts()
	}
}

// GroupDomain returns the domain of the system's own groups.
func (e *Engine) GroupDomain() string { return e.cfg.GroupDomain }

// Now returns the time of the engine's clock.
func (e *Engine) Now() time.Time { return e.cfg.Now() }

// Set returns the resources being served at this moment.
func (e *Engine) Set() *Set { return e.set.Load() }

// Logger returns the engine's logger.
func (e *Engine) Logger() logr.Logger { return e.cfg.Logger }

// Store returns the engine's store.
func (e *Engine) Store() *storage.Store { return e.cfg.Store }

// Leader returns the part of this process in the choice of a leader for the work in the background.
func (e *Engine) Leader() *lead.Leader { return e.leader }

// Start follows the store until ctx ends; Wait then returns. While this process leads, it trims the
// history to the configured window and does what else one of the processes does for all. It returns
// an error if the store cannot be read.
func (e *Engine) Start(ctx context.Context) error {
	if !e.started.CompareAndSwap(false, true) {
		return errors.New("registry: the engine was started before")
	}
	if err := e.tokens.load(ctx); err != nil {
		return fmt.Errorf("load the keys of continue tokens: %w", err)
	}
	release := e.holdChanges()
	e.lifetime = ctx
	for _, o := range e.observations {
		e.tell(ctx, o)
	}
	release()
	e.running.Go(func() {
		if err := e.dispatcher.Run(ctx); err != nil && ctx.Err() == nil {
			e.cfg.Logger.Error(err, "the live view of the store has ended")
		}
	})
	e.running.Go(func() { e.leader.Run(ctx) })
	e.running.Go(func() { e.agreement.Run(ctx) })
	e.running.Go(func() { e.leader.While(ctx, e.retain) })
	for s := range e.Set().Stored() { // only a fork serves resources already
		e.follow(ctx, s)
	}
	e.running.Go(func() { e.leader.While(ctx, e.migrate) })
	if _, ok := storage.As[storage.Recoder](e.cfg.Store); ok {
		e.running.Go(func() { e.recover(ctx) })
	}
	e.running.Go(func() { e.verify(ctx) })
	return e.dispatcher.AwaitLive(ctx) // a started engine is ready
}

// retain trims the history until ctx ends.
func (e *Engine) retain(ctx context.Context) {
	every := max(e.cfg.History/10, time.Millisecond)
	if err := e.cfg.Store.Retain(ctx, e.cfg.History, every); err != nil && ctx.Err() == nil {
		e.cfg.Logger.Error(err, "history is no longer trimmed")
	}
}

// Wait blocks until everything that Start began has ended.
func (e *Engine) Wait() { e.running.Wait() }

// Ready returns the reason why the engine cannot serve consistent answers, or nil if it can.
func (e *Engine) Ready() error {
	if !e.started.Load() {
		return errors.New("not started")
	}
	if r, ok := storage.As[storage.Readiness](e.cfg.Store); ok {
		if err := r.Ready(); err != nil {
			return err
		}
	}
	if err := e.agreement.Ready(); err != nil {
		return err
	}
	return e.dispatcher.Ready()
}
