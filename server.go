package kindwright

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/flowcontrol"
	"github.com/kindwright/kindwright/health"
	"github.com/kindwright/kindwright/internal/discovery"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/feature"
	"github.com/kindwright/kindwright/internal/gc"
	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/hookcontext"
	"github.com/kindwright/kindwright/internal/negotiate"
	"github.com/kindwright/kindwright/internal/pause"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/internal/rest"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/copy"
)

// The phases of a server's life.
const (
	idle int32 = iota // made, not started
	starting
	serving
	stopped
)

// Server is a resource API: an http.Handler over a store. New makes it; Start or Run begins its
// work. All methods are safe for concurrent use.
type Server struct {
	cfg           *config
	backend       storage.Backend
	random        io.Reader
	engine        *engine.Engine
	collector     *gc.Collector     // nil without garbage collection
	parts         []registry.Bundle // of the definitions
	bundle        registry.Bundle   // of all parts
	forked        bool              // the engine has been filled already
	cbor          bool              // the gate is on
	parser        *request.Parser
	meters        *meters
	authenticator authn.Authenticator
	authorizer    authz.Authorizer
	bindings      []*binding  // of authenticators, authorizers and plugins that read objects
	closers       []io.Closer // what plugins have made for this server
	health        *health.Registry
	hookDone      []func() // marks the health check of each start hook as done
	handler       http.Handler
	reports       []func(*request.Exchange) // called in this order for every exchange that has ended
	resources     *rest.Handler
	documents     *discovery.Handler
	preview       atomic.Pointer[engine.Set] // what documents are about while the server starts, if they are served then

	unauthorized sync.Once // tells the log about the first request rejected for want of an authorizer

	phase      atomic.Int32
	audit      *auditor        // nil if nothing is recorded
	draining   context.Context // done when watches should end
	drain      context.CancelFunc
	reconnects reconnects
	refusal    refusal
	origins    origins
	standings  standings
	load       *load
	fairness   *flowcontrol.Controller // nil: all requests are alike
	running    sync.WaitGroup
}

// New makes a server over a store. It validates everything, starts nothing, and reports everything
// that is wrong with the options and kinds together. The caller keeps the backend and closes it
// after Wait or Run has returned.
func New(b storage.Backend, opts ...Option) (*Server, error) {
	cfg := defaults()
	var problems []error
	if absent(b) {
		problems = append(problems, errors.New("a storage backend is required: it is nil; make one with bbolt.Open or memory.New, and look at their errors"))
	} else if err := storage.Usable(b); err != nil {
		problems = append(problems, err)
	}
	for _, o := range opts {
		if o == nil {
			problems = append(problems, errors.New("an option is nil"))
			continue
		}
		problems = append(problems, o.apply(cfg))
	}
	problems = append(problems, cfg.readFeatures())
	s := &Server{cfg: cfg, backend: b, random: rand.Reader}
	s.draining, s.drain = context.WithCancel(context.Background())
	problems = append(problems, cfg.limits.check())
	err := errors.Join(problems...)
	if err == nil { // the parts would report the same problems again, in their own words
		err = s.build()
	}
	if err != nil {
		return nil, fmt.Errorf("kindwright: %w", err)
	}
	return s, nil
}

// absent reports whether the backend, or the one behind a view, is missing: nil, or the nil pointer
// of an Open that failed.
func absent(b storage.Backend) bool {
	for !guard.IsNil(b) {
		view, ok := b.(storage.Unwrapper)
		if !ok {
			return false
		}
		b = view.Unwrap()
	}
	return true
}

// buildReports makes the metrics, and lists who is told of each request that has ended.
func (s *Server) buildReports() {
	s.meters = newMeters(s.versionInfo(), s.storeSize, s.cfg.timed)
	s.reports = append(s.reports, s.count)
	if s.cfg.tracer != nil {
		s.reports = append(s.reports, endSpan)
	}
}

// build makes the parts of the server from its configuration.
func (s *Server) build() error {
	s.buildReports()
	if err := s.buildAccess(); err != nil {
		return err
	}
	if err := s.buildFairness(); err != nil {
		return err
	}
	domain := s.groupDomain()
	err := s.buildAudit(domain)
	if err != nil {
		return err
	}
	if s.parts, err = define(s.cfg.allDefinitions(), s.env(domain)); err != nil {
		return err
	}
	s.bundle = join(s.parts)
	chain, err := s.buildAdmission()
	if err != nil {
		return err
	}
	cfg := s.cfg.engine()
	cfg.Store, cfg.GroupDomain = storage.New(s.backend, storage.WithMonitor(s.meters.observeStore)), domain
	if cfg.Serves, err = s.cfg.selection(s.bundle.Resources); err != nil {
		return err
	}
	cfg.Admission, cfg.Authorizer, cfg.Gate, cfg.Logger = chain, sideAuthorizer{s.authorizer}, s.bundle.Gate, s.cfg.log
	if s.cfg.access.CheckExecution {
		cfg.Check = s.checkExecution
	}
	s.buildCollector(&cfg)
	if s.engine, err = engine.New(cfg); err != nil {
		return err
	}
	preview, err := s.engine.Preview(s.bundle.Resources...)
	if err != nil {
		return err
	}
	if s.cfg.http.DiscoveryFirst {
		s.preview.Store(preview)
	}
	s.collectState()
	if err := s.buildHealth(); err != nil {
		return err
	}
	if err := s.connect(); err != nil {
		return err
	}
	s.standings = standings{every: s.cfg.access.RecheckEvery, judge: s.judge, log: s.cfg.log}
	if s.origins, err = parseOrigins(s.cfg.access.Origins); err != nil {
		return err
	}
	s.cbor = s.cfg.gates.Enabled(feature.CBOR)
	s.parser = request.NewParser(s.cfg.http.PathPrefix, domain)
	if s.cfg.watches.OldPaths {
		s.parser = s.parser.WithWatchPaths()
	}
	s.handler, err = s.assemble(s.dispatch())
	return err
}

// env returns what definitions may know about the server.
func (s *Server) env(domain string) registry.Env {
	return registry.Env{
		GroupDomain: domain, Authenticator: s.authenticator, Authorizer: s.authorizer, Audiences: s.cfg.access.Audiences, Types: &openapi.Types{}, Overlay: s.cfg.schemas.Overlay,
		Egress:      s.cfg.egress,
		Expressions: cel.RuleOptions{Release: s.cfg.expressions().String(), Prices: s.cfg.prices(), Compiled: s.cfg.compiled},
	}
}

// define asks every definition for its bundle, and reports all that cannot be served.
func define(definitions []registry.Definition, env registry.Env) ([]registry.Bundle, error) {
	var parts []registry.Bundle
	var problems []error
	gates := 0
	for _, d := range definitions {
		b, err := d.Define(env)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		if b.Gate != nil {
			gates++
		}
		parts = append(parts, b)
	}
	if gates > 1 {
		problems = append(problems, errors.New("two definitions want to decide about namespaces: kinds.ControlPlane() and kinds.Namespaces() each do, so give one of them, once"))
	}
	if len(problems) == 0 {
		problems = append(problems, env.Types.Unused())
	}
	return parts, errors.Join(problems...)
}

// join merges several bundles into one.
func join(parts []registry.Bundle) registry.Bundle {
	var all registry.Bundle
	for _, b := range parts {
		all.Resources = append(all.Resources, b.Resources...)
		all.Hooks = append(all.Hooks, b.Hooks...)
		all.Plugins = append(all.Plugins, b.Plugins...)
		if b.Gate != nil {
			all.Gate = b.Gate
		}
	}
	return all
}

// groupDomain is the domain of the server's own API groups.
func (s *Server) groupDomain() string {
	return cmp.Or(s.cfg.kubernetes.GroupDomain, request.DefaultGroupDomain)
}

func (s *Server) buildAccess() error {
	authenticators, err := s.bindAuthenticators(s.cfg.authenticators)
	if err != nil {
		return err
	}
	if !s.cfg.access.NoAnonymous {
		authenticators = append(authenticators, authn.Anonymous())
	}
	s.authenticator = authn.Union(authenticators...)
	if s.cfg.access.EachCredential {
		s.authenticator = authn.Each(s.authenticator)
	}
	open, err := authz.AllowPaths(s.cfg.access.OpenPaths...)
	if err != nil {
		return err
	}
	authorizers, err := s.bindAuthorizers(s.cfg.authorizers)
	if err != nil {
		return err
	}
	s.authorizer = authz.Union(append([]authz.Authorizer{authz.Masters(), open}, authorizers...)...)
	collectFrom(s.meters, s.cfg.authenticators)
	collectFrom(s.meters, s.cfg.authorizers)
	collectFrom(s.meters, s.cfg.definitions)
	collectFrom(s.meters, []storage.Backend{s.backend})
	if s.cfg.behind != nil {
		s.cfg.behind.CollectMetrics(&s.meters.registry)
	}
	if s.cfg.egress != nil {
		s.cfg.egress.CollectMetrics(&s.meters.registry)
	}
	return nil
}

// buildHealth registers the checks that every server has and the configured ones.
func (s *Server) buildHealth() error {
	s.health = health.New(health.WithLogger(s.cfg.log), health.WithLivezGrace(s.cfg.http.LivezGrace), health.WithResult(s.meters.health.Observe))
	problems := []error{
		s.health.Add(health.Health|health.Ready, health.Check{Name: cmp.Or(s.cfg.http.StoreCheck, "etcd"), Check: s.checkStore}),
		s.health.Add(health.Health|health.Ready, health.Check{Name: "store-space", Check: s.checkSpace}),
		s.health.Add(health.Health|health.Ready, health.Check{Name: "store-records", Check: s.checkRecords, Advisory: true}),
		s.health.Add(health.Ready, health.Check{Name: "informer-sync", Check: func(context.Context) error { return s.engine.Ready() }}),
	}
	for _, c := range s.cfg.checks {
		problems = append(problems, s.health.Add(c.to, c.checks...))
	}
	s.hookDone = make([]func(), len(s.bundle.Hooks))
	for i, hook := range s.bundle.Hooks {
		if hook.Start == nil {
			continue
		}
		done, err := s.health.AddPostStartHook(hook.Name)
		s.hookDone[i] = done
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// checkStore is the health check of the storage layer (HEALTH-15, STORE-08). The store must be
// readable and still accept writes.
func (s *Server) checkStore(ctx context.Context) error {
	if h, ok := storage.As[storage.Health](s.backend); ok {
		if err := h.Healthy(); err != nil {
			return err
		}
	}
	if r, ok := storage.As[storage.Readiness](s.backend); ok {
		if err := r.Ready(); err != nil {
			return err
		}
	}
	_, err := s.backend.Revision(ctx)
	return err
}

// checkSpace is the health check that fails while the store refuses writes for want of space. It is one of its
// own, so that whoever wants reads and deletions to be sent here even then can exclude it from a probe.
func (s *Server) checkSpace(context.Context) error {
	if r, ok := storage.As[storage.Space](s.backend); ok {
		if err := r.Room(); err != nil {
			return fmt.Errorf("507 Insufficient Storage: %w", err)
		}
	}
	return nil
}

// dispatch is the end of the chain: it routes an authorized request to its handler.
func (s *Server) dispatch() http.Handler {
	h := &s.cfg.http
	output := s.output()
	s.resources = rest.New(s.engine, rest.Options{
		Output:    output,
		Logger:    s.cfg.log,
		MayCreate: s.mayCreate,

		MayIgnoreReadErrors: s.mayIgnoreReadErrors,

		BookmarkEvery: s.cfg.watches.BookmarkEvery,
		MinWatch:      s.cfg.watches.MinDuration,
		Gone:          s.cfg.kubernetes.WatchGone,
		Draining:      s.draining,

		Shards:           s.cfg.gates.Enabled(feature.Shards),
		WebSockets:       s.cfg.watches.WebSockets,
		NoStreamingLists: !s.cfg.gates.Enabled(feature.WatchList),
		Deprecated:       s.deprecated,
	})
	s.documents = s.describe(output)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := request.ExchangeFrom(r.Context())
		if x.Streams {
			x.Limit.Lift()
			ended, leave := s.standings.enter(r.Context(), x)
			defer leave()
			x.Ended = ended
		}
		info := x.Info.Load()
		switch {
		case s.passOn(w, r, x, info):
		case x.Misused != nil: // the other server, which may know the method, has gone meanwhile
			writeParseError(w, r, x.Misused)
		case info.IsResource && h.Fallback != nil && x.Kind == nil && !s.engine.Set().ServesGroup(info.Group):
			if x.Ended != nil {
				r = r.WithContext(x.Ended)
			}
			h.Fallback.ServeHTTP(w, r)
		case info.IsResource:
			s.resources.ServeHTTP(w, r)
		case isHealth(info):
			s.health.Serve(w, r, info.Path)
		case isMetrics(info):
			s.serveMetrics(w, r, info)
		case s.isDebug(info):
			s.serveDebug(w, r, info)
		case s.isFairnessDump(info):
			s.serveFairnessDump(w, r, info)
		default:
			s.documents.ServeHTTP(w, r)
		}
	})
}

// deprecated reports whether a version is deprecated in the release that the server is like (VER-17).
func (s *Server) deprecated(d *registry.Deprecation) bool {
	return s.cfg.gates.Release().Reached(d.Since)
}

func (s *Server) output() *negotiate.Output {
	from := s.cfg.http.CompressFrom
	return &negotiate.Output{Compress: from >= 0 && s.cfg.gates.Enabled(feature.ResponseCompression), Threshold: max(from, 0)}
}

// ServeHTTP answers one request. Before the server has started and after it has ended, the answer
// is 503 with Retry-After.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	reserveStack(len(r.Method))
	s.handler.ServeHTTP(w, r)
}

// Engine gives in-process access to the objects of a started server. Calls take the same steps as
// over HTTP, without authorization.
func (s *Server) Engine() registry.Objects { return s.engine }

// Install adds kinds to a started server. They appear all at once when their objects are loaded.
func (s *Server) Install(ctx context.Context, definitions ...registry.Definition) error {
	return s.Change(ctx, nil, definitions...)
}

// Change removes kinds from a started server and adds others, in one step. A kind in both lists is
// replaced. Requests in flight finish with the kind they began with, no client sees a moment
// without the kind, and watches continue where they were.
//
// An entry of remove without a version stands for all versions. After an error nothing has changed;
// see engine.Engine.Change.
func (s *Server) Change(ctx context.Context, remove []meta.GroupVersionResource, definitions ...registry.Definition) error {
	if ctx == nil {
		return errors.New("kindwright: Change: the context is nil")
	}
	if err := given("Change", "definition", definitions); err != nil {
		return fmt.Errorf("kindwright: %w", err)
	}
	parts, err := define(definitions, s.env(s.engine.GroupDomain()))
	if err != nil {
		return fmt.Errorf("kindwright: %w", err)
	}
	b := join(parts)
	if b.Gate != nil || len(b.Hooks) > 0 {
		return errors.New("kindwright: a definition with hooks or a gate can only be given to New")
	}
	if err := s.engine.Change(ctx, remove, b.Resources); err != nil {
		return fmt.Errorf("kindwright: %w", err)
	}
	return nil
}

// Remove stops serving kinds; their watches end. Their objects stay stored, even if their namespace
// is deleted meanwhile: that deletes only objects of served kinds. Unknown names are ignored.
func (s *Server) Remove(resources ...meta.GroupResource) { s.engine.Remove(resources...) }

// Start loads the kinds, runs the start hooks and begins the background work. It returns when the
// server is ready, or reports why it cannot be. It can be called once.
//
// The work lasts until ctx ends. Then the server answers 503 and Wait returns.
func (s *Server) Start(ctx context.Context) error {
	if ctx == nil {
		return errors.New("kindwright: Start: the context is nil")
	}
	context.AfterFunc(ctx, s.drain)
	return s.start(ctx)
}

func (s *Server) start(ctx context.Context) error {
	if !s.phase.CompareAndSwap(idle, starting) {
		return errors.New("kindwright: the server was started before; Run calls Start itself, use one of the two")
	}
	ctx, cancel := context.WithCancel(ctx)
	s.running.Go(func() {
		defer cancel()
		<-ctx.Done()
		s.phase.Store(stopped)
		s.drain()
		s.health.ShutDown()
		if !s.resources.Wait(drainTimeout) {
			s.cfg.log.Error(nil, "handlers of connections have not returned although their connections are closed")
		}
		s.documents.Close()
		s.engine.Wait()
		if s.audit != nil {
			s.audit.settle()
		}
		s.closeAll()
		s.health.Wait()
	})
	if s.audit != nil {
		s.running.Go(func() { s.audit.repayLater(ctx) })
	}
	if err := s.prepare(ctx); err != nil {
		cancel()
		s.Wait()
		return fmt.Errorf("kindwright: %w", err)
	}
	s.phase.CompareAndSwap(starting, serving)
	s.preview.Store(nil)
	if len(s.cfg.authorizers) == 0 && !s.forked {
		s.cfg.log.Info("warning: no authorizer was given, so only members of system:masters have access; see kindwright.Authorize")
	}
	return nil
}

func (s *Server) prepare(ctx context.Context) error {
	if err := copy.Unfinished(ctx, s.backend); err != nil {
		return err
	}
	s.health.Start()
	if err := s.awaitStore(ctx); err != nil {
		return err
	}
	if err := s.engine.Start(ctx); err != nil {
		return err
	}
	if !s.forked {
		if err := s.engine.Install(ctx, s.bundle.Resources...); err != nil {
			return err
		}
	}
	for i, hook := range s.bundle.Hooks {
		if hook.Start != nil {
			if err := s.startHook(ctx, hook); err != nil {
				return fmt.Errorf("start hook %q: %w", hook.Name, err)
			}
			s.hookDone[i]()
		}
		if hook.Run != nil {
			s.running.Go(func() { s.runHook(ctx, hook) })
		}
	}
	s.collect(ctx)
	return nil
}

// awaitStore waits for a store that cannot be reached yet, if documents are served meanwhile. The health
// checks say what the server waits for.
func (s *Server) awaitStore(ctx context.Context) error {
	for s.cfg.http.DiscoveryFirst {
		_, err := s.backend.Revision(ctx)
		if err == nil || !errors.Is(err, storage.ErrUnavailable) {
			return err
		}
		if err := pause.For(ctx, storeRetry); err != nil {
			return err
		}
	}
	return nil
}

// storeRetry is how long awaitStore waits before it asks again.
const storeRetry = time.Second

// startHook runs a start hook. A fork skips it: its effects are part of the state that the fork
// began with.
func (s *Server) startHook(ctx context.Context, hook registry.Hook) error {
	if s.forked {
		return nil
	}
	return hook.Start(hookcontext.WithStart(ctx), s.engine)
}

// runHook runs a hook's work in the background until ctx ends.
func (s *Server) runHook(ctx context.Context, hook registry.Hook) {
	if !hook.Leader {
		hook.Run(ctx, s.engine)
		return
	}
	s.engine.Leader().While(ctx, func(ctx context.Context) { hook.Run(ctx, s.engine) })
}

// Leads reports whether this server does the background work of all servers that share its store:
// expiry, collection, migration, the end of namespaces, the trimming of history. Another server may just
// have taken over. On a store that no other process can have open it is always true.
func (s *Server) Leads() bool { return s.engine.Leader().Leads() }

// Wait blocks until everything that Start began has ended.
func (s *Server) Wait() { s.running.Wait() }

var _ http.Handler = (*Server)(nil)
