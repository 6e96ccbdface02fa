package kindwright

import (
	"context"
	"io"
	"iter"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/authz/impersonation"
	"github.com/kindwright/kindwright/internal/discovery"
	"github.com/kindwright/kindwright/internal/engine"
	internal "github.com/kindwright/kindwright/internal/metrics"
	"github.com/kindwright/kindwright/internal/metrics/apiserver"
	"github.com/kindwright/kindwright/internal/negotiate"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/internal/rest"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/metrics"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
)

// Families returns the server's metrics at this moment. /metrics serves the same in Prometheus'
// text form. A program that uses Prometheus' client library passes the server to
// metrics/clientgolang instead.
func (s *Server) Families() iter.Seq[metrics.Family] { return s.meters.registry.Families() }

var _ metrics.Source = (*Server)(nil)

// meters counts what a server does. Every series belongs to something that the server serves: text
// from a request never becomes a label.
type meters struct {
	registry  internal.Registry
	baseline  atomic.Pointer[internal.Baseline] // nil before the first reset
	requests  *apiserver.Requests
	access    *apiserver.Access
	acting    *apiserver.Impersonation
	admission apiserver.Admission
	health    *apiserver.Health
	store     apiserver.Storage
	paths     map[string]*apiserver.Served // outside of the API
	inserted  bool                         // the chain has middleware that is not ours
	kinds     sync.Map                     // *engine.Served to *kindMeters; those that were asked for
}

// kindMeters count the requests for one kind: those for its objects, then those for its
// subresources.
type kindMeters []*apiserver.Served

// meteredPaths are the paths outside of the API that have their own series. All others share one.
var meteredPaths = [...]string{"/healthz", "/livez", "/readyz", "/metrics", "/metrics/slis", "/version", "/api", "/apis", "/openapi/v2", "/openapi/v3"}

// newMeters registers the metrics that do not need the engine.
func newMeters(version discovery.VersionInfo, size func() (int64, bool), rules *apiserver.Expressions) *meters {
	m := &meters{paths: map[string]*apiserver.Served{}}
	r := &m.registry
	m.requests, m.access, m.health = apiserver.NewRequests(r), apiserver.NewAccess(r), apiserver.NewHealth(r)
	m.acting = apiserver.NewImpersonation(r, impersonation.Modes()...)
	for _, p := range meteredPaths {
		m.paths[p] = m.requests.Serve(apiserver.Resource{Subresource: p})
	}
	m.store = apiserver.NewStorage(r, size, "get", "list", "commit", "watch", "history", "revision", "sync", "compact")
	apiserver.CollectBuild(r, apiserver.Build{
		Major: version.Major, Minor: version.Minor, GitVersion: version.GitVersion,
		GitCommit: version.GitCommit, GitTreeState: version.GitTreeState, BuildDate: version.BuildDate,
	})
	rules.CollectMetrics(r)
	internal.CollectRuntime(r)
	internal.CollectProcess(r, os.DirFS("/proc"))
	return m
}

// collectFrom registers the metrics of the authenticators, authorizers, definitions or stores that have some.
func collectFrom[T any](m *meters, parts []T) {
	for _, p := range parts {
		if c, ok := any(p).(interface{ CollectMetrics(r *internal.Registry) }); ok {
			c.CollectMetrics(&m.registry)
		}
		if u, ok := any(p).(interface{ Unwrap() []T }); ok {
			collectFrom(m, u.Unwrap())
		}
	}
}

// storeSize returns the size of the store in bytes, if the store can tell it.
func (s *Server) storeSize() (int64, bool) {
	sized, ok := storage.As[storage.Sized](s.backend)
	if !ok {
		return 0, false
	}
	return sized.Size()
}

// observeStore counts a call of the store.
func (m *meters) observeStore(o storage.Call) {
	op := m.store[o.Op]
	if op == nil {
		return
	}
	op.Took.Observe(o.Took.Seconds())
	if o.Err != nil {
		op.Failed.Add(1)
	}
}

// observeImpersonation counts an attempt to act as somebody else, or a question about one.
func (m *meters) observeImpersonation(ctx context.Context, o impersonation.Outcome) {
	if o.Question {
		m.acting.Question(o.Mode, o.Allowed, o.Took)
	} else {
		m.acting.Attempt(o.Mode, o.Allowed, o.Took)
		request.ExchangeFrom(ctx).Spend(request.Impersonating, o.Took)
	}
}

// observePlugins registers the metrics of a server's plugins.
func (m *meters) observePlugins(plugins []admission.Plugin) {
	var names []string
	for _, p := range plugins {
		names = append(names, p.Name)
	}
	m.admission = apiserver.NewAdmission(&m.registry, names...)
}

// observePlugin counts a call of a plugin.
func (m *meters) observePlugin(o admission.Timing) {
	step := apiserver.Admit
	if o.Validating {
		step = apiserver.Validate
	}
	var op apiserver.Operation
	switch o.Operation {
	case admission.Create:
		op = apiserver.Create
	case admission.Update:
		op = apiserver.Update
	case admission.Delete:
		op = apiserver.Deletion
	case admission.Connect:
		op = apiserver.Connecting
	}
	m.admission[o.Plugin].Observe(step, op, o.Rejected, o.Took)
}

// collectState registers what a scrape reads from the engine.
func (s *Server) collectState() {
	r := &s.meters.registry
	apiserver.CollectStored(r, func() iter.Seq[apiserver.Stored] { return stored(s.engine.Set()) })
	apiserver.CollectMigrations(r, func() iter.Seq[apiserver.Migration] {
		return func(yield func(apiserver.Migration) bool) {
			for _, m := range s.engine.Migrations() {
				if !yield(apiserver.Migration{Group: m.Resource.Group, Resource: m.Resource.Resource, Done: m.Done, Left: m.Left, Kept: m.Kept}) {
					return
				}
			}
		}
	})
	if s.collector == nil {
		return
	}
	apiserver.CollectGarbage(r, func() apiserver.Garbage {
		g := s.collector.Stats()
		return apiserver.Garbage{
			Reads: g.Reads, Deletes: g.Deletes, Stripped: g.Stripped, Released: g.Released, Retries: g.Retries, Unserved: g.Unserved,
			References: g.Owned, Waiting: g.Unsettled,
		}
	})
}

// stored is the state of the live views of a set.
func stored(set *engine.Set) iter.Seq[apiserver.Stored] {
	return func(yield func(apiserver.Stored) bool) {
		for served := range set.Stored() {
			now := served.Cache.Statistics()
			one := apiserver.Stored{
				Group: served.Resource.Group, Resource: served.Resource.Plural, Objects: now.Objects, Revision: uint64(now.Revision),
				Received: now.Received, Watchers: now.Watchers, Changes: now.Changes, LogBytes: now.LogBytes, Unreadable: now.Unreadable,
				Comparisons: now.Comparisons, Divergences: now.Divergences,
			}
			if !yield(one) {
				return
			}
		}
	}
}

// enter begins to count a request.
func (s *Server) enter(x *request.Exchange) {
	method := x.Received.Method
	x.Meter = s.meterOf(x).Begin(callOf(x), x.Streams, method != http.MethodGet && method != http.MethodHead)
}

// count counts a request that has ended. It is one of the server's reports.
func (s *Server) count(x *request.Exchange) {
	if x.Meter == (apiserver.Running{}) {
		s.enter(x) // it could not be parsed
	}
	x.Meter.End(apiserver.Outcome{
		Code: int(x.Code.Load()), Duration: time.Since(x.Start), Sent: x.Bytes.Load(), Received: int64(len(x.Sent)), Aborted: x.Aborted.Load(),
	})
}

// callOf reduces a request to the facts that are counted.
func callOf(x *request.Exchange) apiserver.Call {
	info := x.Info.Load()
	if info == nil || !info.IsResource || x.Misused != nil || x.Unread != nil {
		return apiserver.Call{Verb: apiserver.VerbOf(x.Received.Method)}
	}
	c := apiserver.Call{Scope: apiserver.ResourceScope}
	if info.Subresource != "" {
		if sub := rest.Subresource(x); sub != nil && sub.Connects() {
			c.Verb = apiserver.Connect
			return c
		}
	}
	switch {
	case info.Name != "" || info.Verb == request.VerbCreate:
	case info.Namespace != "":
		c.Scope = apiserver.NamespaceScope
	default:
		c.Scope = apiserver.ClusterScope
	}
	switch info.Verb {
	case request.VerbGet:
		c.Verb = apiserver.Get
		return c
	case request.VerbList:
		c.Verb = apiserver.List
		return c
	case request.VerbWatch:
		c.Verb = apiserver.Watch
		return c
	case request.VerbCreate:
		c.Verb = apiserver.Post
	case request.VerbUpdate:
		c.Verb = apiserver.Put
	case request.VerbPatch:
		c.Verb = apiserver.Patch
		if strings.HasPrefix(x.Received.Header.Get("Content-Type"), string(meta.ApplyPatch)) {
			c.Verb = apiserver.Apply
		}
	case request.VerbDelete, request.VerbDeleteCollection:
		c.Verb = apiserver.Delete
	}
	if dry := info.Query.DryRun; len(dry) > 0 {
		c.DryRun = apiserver.DryRunAll
		if slices.ContainsFunc(dry, func(s string) bool { return s != "All" }) {
			c.DryRun = apiserver.InvalidDryRun
		}
	}
	return c
}

// meterOf returns what counts a request.
func (s *Server) meterOf(x *request.Exchange) *apiserver.Served {
	m, info := s.meters, x.Info.Load()
	if info == nil {
		return m.requests.Unserved()
	}
	if kind := rest.Kind(x); kind != nil {
		k, ok := m.kinds.Load(kind)
		if !ok {
			k = s.meterKind(kind)
		}
		for _, served := range *k.(*kindMeters) { //nolint:forcetypeassert // nothing else is stored
			if served.Subresource == info.Subresource {
				return served
			}
		}
	} else if path := m.paths[info.Path]; path != nil {
		return path
	}
	return m.requests.Unserved()
}

// meterKind makes the meters of a kind.
func (s *Server) meterKind(kind *engine.Served) any {
	at := apiserver.Resource{Group: kind.Resource.Group, Version: kind.Resource.Version, Resource: kind.Resource.Plural}
	fresh := &kindMeters{s.meters.requests.Serve(at)}
	for _, sub := range kind.Kind.Endpoints() {
		at.Subresource = sub.Name
		*fresh = append(*fresh, s.meters.requests.Serve(at))
	}
	var removed *string
	if d := kind.Kind.Deprecated; d != nil && s.deprecated(d) {
		removed = &d.Removed
	}
	for _, served := range *fresh {
		served.Deprecate(removed)
	}
	k, raced := s.meters.kinds.LoadOrStore(kind, fresh)
	if raced {
		fresh.release()
		return k
	}
	context.AfterFunc(kind.Ended(), func() { s.forget(kind, fresh) })
	return fresh
}

// forget removes the series of a kind that is no longer served, unless another kind has replaced
// it.
func (s *Server) forget(kind *engine.Served, k *kindMeters) {
	if now, ok := s.engine.Set().Lookup(kind.Resource.GroupVersionResource()); ok && now != kind {
		if _, ok := s.meters.kinds.Load(now); !ok {
			s.meterKind(now)
		}
	}
	s.meters.kinds.Delete(kind)
	k.release()
}

func (k *kindMeters) release() {
	for _, served := range *k {
		served.Release()
	}
}

// timedAuthenticator counts the results of an authenticator and measures its time. Durations are
// differences of times since the request came in: reading those costs half as much as reading the
// time of day.
type timedAuthenticator struct {
	meters *meters
	authn.Authenticator
}

// IdentityHeaders returns those of the authenticator.
func (t timedAuthenticator) IdentityHeaders() (names, prefixes []string) {
	return authn.IdentityHeaders(t.Authenticator)
}

// HeaderRevision returns that of the authenticator.
func (t timedAuthenticator) HeaderRevision() uint64 { return authn.HeaderRevision(t.Authenticator) }

// Authenticate asks the authenticator.
func (t timedAuthenticator) Authenticate(r *http.Request) (authn.User, bool, error) {
	x := request.ExchangeFrom(r.Context())
	begin := time.Since(x.Start)
	u, ok, err := t.Authenticator.Authenticate(r)
	how := apiserver.Authenticated
	switch {
	case err != nil:
		how = apiserver.AuthenticationFailed
	case !ok:
		how = apiserver.Unauthenticated
	}
	x.Lap = time.Since(x.Start)
	x.Spend(request.Authentication, x.Lap-begin)
	t.meters.access.Authentication(how, u.Name, begin, x.Lap)
	return u, ok, err
}

// timedAuthorizer counts the decisions of an authorizer and measures its time, which begins when the
// user was known: nothing but inserted middleware runs between the two.
type timedAuthorizer struct {
	meters *meters
	authz.Authorizer
}

// Authorize asks the authorizer.
func (t timedAuthorizer) Authorize(ctx context.Context, a authz.Attributes) (authz.Decision, string, error) {
	x := request.ExchangeFrom(ctx)
	begin := x.Lap
	if t.meters.inserted {
		begin = time.Since(x.Start)
	}
	d, reason, err := t.Authorizer.Authorize(ctx, a)
	how := apiserver.AuthorizationFailed
	switch {
	case err != nil:
	case d == authz.Allow:
		how = apiserver.Allowed
	case d == authz.Deny:
		how = apiserver.Denied
	case d == authz.NoOpinion:
		how = apiserver.NoOpinion
	}
	took := time.Since(x.Start) - begin
	x.Spend(request.Authorization, took)
	t.meters.access.Authorization(how, took)
	return d, reason, err
}

// serveMetrics answers a scrape. DELETE has counters begin again for later scrapes, as in Kubernetes
// where profiles are served. The path /metrics/slis has the results of health checks alone, for those
// who scrape them more often than the rest.
func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request, info *request.Info) {
	healthAlone := len(info.Segments) > 1
	if !healthAlone && r.Method == http.MethodDelete && s.cfg.debug.Profiles {
		s.meters.baseline.Store(internal.NewBaseline(s.Families()))
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "metrics reset\n") // the client is gone
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		negotiate.WriteError(w, r, status.MethodNotAllowed(meta.GroupResource{}, r.Method))
		return
	}
	w.Header().Set("Content-Type", internal.ContentType)
	w.WriteHeader(http.StatusOK)
	var to io.Writer = w
	if r.Method == http.MethodHead {
		to = io.Discard
	}
	families := s.Families()
	if healthAlone {
		families = apiserver.HealthAlone(families)
	}
	if base := s.meters.baseline.Load(); base != nil {
		families = base.Since(families)
	}
	_ = internal.Write(to, families) // the client is gone
}

// isMetrics reports whether a request is a scrape.
func isMetrics(info *request.Info) bool {
	return !info.IsResource && (info.Path == "/metrics" || info.Path == "/metrics/slis")
}
