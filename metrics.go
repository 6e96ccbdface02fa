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
	"time"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
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
	registry   internal.Registry
	requests   *apiserver.Requests
	access     *apiserver.Access
	admission  *apiserver.Admission
	health     *apiserver.Health
	plugins    map[string]*apiserver.Phases           // by name; "" for all together
	operations map[string]*apiserver.StorageOperation // of the store, by Observation.Op
	paths      map[string]*apiserver.Served           // outside of the API
	kinds      sync.Map                               // *engine.Served to *kindMeters; those that were asked for
}

// kindMeters count the requests for one kind.
type kindMeters struct {
	own          *apiserver.Served
	subresources map[string]*apiserver.Served
}

// meteredPaths are the paths outside of the API that have their own series. All others share one.
var meteredPaths = [...]string{"/healthz", "/livez", "/readyz", "/metrics", "/version", "/api", "/apis", "/openapi/v2", "/openapi/v3"}

// newMeters registers the metrics that do not need the engine.
func newMeters(version discovery.VersionInfo, size func() (int64, bool)) *meters {
	m := &meters{operations: map[string]*apiserver.StorageOperation{}, paths: map[string]*apiserver.Served{}, plugins: map[string]*apiserver.Phases{}}
	r := &m.registry
	m.requests, m.access = apiserver.NewRequests(r), apiserver.NewAccess(r)
	m.admission, m.health = apiserver.NewAdmission(r), apiserver.NewHealth(r)
	for _, p := range meteredPaths {
		m.paths[p] = m.requests.Serve(apiserver.Resource{Subresource: p})
	}
	store := apiserver.NewStorage(r, size)
	for _, op := range []string{"get", "list", "commit", "watch", "revision", "compact"} {
		m.operations[op] = store.Operation(op)
	}
	apiserver.CollectBuild(r, apiserver.Build{
		Major: version.Major, Minor: version.Minor, GitVersion: version.GitVersion,
		GitCommit: version.GitCommit, GitTreeState: version.GitTreeState, BuildDate: version.BuildDate,
	})
	internal.CollectRuntime(r)
	internal.CollectProcess(r, os.DirFS("/proc"))
	return m
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
func (m *meters) observeStore(o storage.Observation) {
	if op := m.operations[o.Op]; op != nil {
		op.Observe(o.Took, o.Err)
	}
}

// observePlugins makes the series of a server's plugins.
func (m *meters) observePlugins(plugins []admission.Plugin) {
	m.plugins[""] = m.admission.Steps()
	for _, p := range plugins {
		m.plugins[p.Name] = m.admission.Plugin(p.Name)
	}
}

// observePlugin counts a call of a plugin.
func (m *meters) observePlugin(o admission.Observation) {
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
	m.plugins[o.Plugin].Observe(step, op, o.Rejected, o.Took)
}

// observeCheck counts a result of a health check.
func (m *meters) observeCheck(name, endpoint string, passed bool) {
	m.health.Check(name, endpoint).Observe(passed)
}

// collect registers what a scrape reads from the engine.
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
				Received: now.Received, Watchers: now.Watchers, Changes: now.Changes, LogBytes: now.LogBytes,
			}
			if !yield(one) {
				return
			}
		}
	}
}

// enter starts counting a parsed request.
func (s *Server) enter(x *request.Exchange) {
	x.Meter = s.meterOf(x)
	s.gauge(x).Add(1)
}

// count counts a request that has ended. It is one of the server's reports.
func (s *Server) count(x *request.Exchange) {
	if x.Meter == nil { // it was not parsed
		x.Meter = s.meters.requests.Unserved()
	} else {
		s.gauge(x).Add(-1)
	}
	call := callOf(x)
	code := int(x.Code.Load())
	x.Meter.Observe(call, apiserver.Outcome{Code: code, Duration: time.Since(x.Start), Sent: x.Bytes.Load(), Received: int64(len(x.Sent))})
	switch code {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		x.Meter.Terminated(call, code)
	}
	if x.Aborted.Load() {
		x.Meter.Aborted(call)
	}
}

// gauge returns the gauge of requests in flight that includes this one.
func (s *Server) gauge(x *request.Exchange) *internal.Gauge {
	if x.Streams {
		return x.Meter.LongRunning(callOf(x))
	}
	method := x.Received.Method
	return s.meters.requests.Inflight(method != http.MethodGet && method != http.MethodHead)
}

// callOf reduces a request to the facts that are counted.
func callOf(x *request.Exchange) apiserver.Call {
	r := x.Received
	target := apiserver.Target{Method: r.Method}
	if target.Method == "" {
		target.Method = http.MethodGet
	}
	if info := x.Info.Load(); info != nil {
		target.Resource, target.Collection, target.Namespace = info.IsResource, info.IsCollection(), info.Namespace
		target.Watch, target.DryRun = info.Verb == request.VerbWatch, info.Query.DryRun
		target.Connect = info.Subresource != "" && connects(x)
		target.Apply = info.Verb == request.VerbPatch && strings.HasPrefix(r.Header.Get("Content-Type"), string(meta.ApplyPatch))
	}
	return target.Call()
}

// connects reports whether a request is for a subresource that clients connect to.
func connects(x *request.Exchange) bool {
	sub := rest.Subresource(x)
	return sub != nil && sub.Connects()
}

// streams reports whether the duration of a request is unlimited.
func streams(x *request.Exchange) bool {
	info := x.Info.Load()
	if info.Verb == request.VerbWatch {
		return true
	}
	if info.Subresource == "" {
		return false
	}
	sub := rest.Subresource(x)
	return sub != nil && sub.Streams(info.Verb)
}

// meterOf returns the meter that counts a request.
func (s *Server) meterOf(x *request.Exchange) *apiserver.Served {
	m, info := s.meters, x.Info.Load()
	if !info.IsResource {
		if path := m.paths[info.Path]; path != nil {
			return path
		}
		return m.requests.Unserved()
	}
	kind := rest.Kind(x)
	if kind == nil {
		return m.requests.Unserved()
	}
	k := s.kindMeters(kind)
	if info.Subresource == "" {
		return k.own
	}
	if sub := k.subresources[info.Subresource]; sub != nil {
		return sub
	}
	return m.requests.Unserved()
}

// kindMeters returns the meters of a kind, and makes them if needed.
func (s *Server) kindMeters(kind *engine.Served) *kindMeters {
	if k, ok := s.meters.kinds.Load(kind); ok {
		return k.(*kindMeters) //nolint:forcetypeassert // nothing else is stored
	}
	at := apiserver.Resource{Group: kind.Resource.Group, Version: kind.Resource.Version, Resource: kind.Resource.Plural}
	fresh := &kindMeters{own: s.meters.requests.Serve(at), subresources: map[string]*apiserver.Served{}}
	for _, sub := range kind.Kind.Endpoints() {
		at.Subresource = sub.Name
		fresh.subresources[sub.Name] = s.meters.requests.Serve(at)
	}
	if k, raced := s.meters.kinds.LoadOrStore(kind, fresh); raced {
		fresh.release()
		return k.(*kindMeters) //nolint:forcetypeassert // likewise
	}
	context.AfterFunc(kind.Ended(), func() { s.forget(kind, fresh) })
	return fresh
}

// forget removes the series of a kind that is no longer served, unless another kind has replaced
// it.
func (s *Server) forget(kind *engine.Served, k *kindMeters) {
	if now, ok := s.engine.Set().Lookup(kind.Resource.GroupVersionResource()); ok && now != kind {
		s.kindMeters(now)
	}
	s.meters.kinds.Delete(kind)
	k.release()
}

func (k *kindMeters) release() {
	k.own.Release()
	for _, sub := range k.subresources {
		sub.Release()
	}
}

// timedAuthenticator counts the results of an authenticator and measures its time. Durations are
// differences of times since the request came in: reading those costs half as much as reading the
// time of day.
func (m *meters) timedAuthenticator(a authn.Authenticator) authn.Authenticator {
	return authn.Func(func(r *http.Request) (authn.User, bool, error) {
		x := request.ExchangeFrom(r.Context())
		begin := time.Since(x.Start)
		u, ok, err := a.Authenticate(r)
		how := apiserver.Authenticated
		switch {
		case err != nil:
			how = apiserver.AuthenticationFailed
		case !ok:
			how = apiserver.Unauthenticated
		}
		m.access.Authentication(how, u.Name, time.Since(x.Start)-begin)
		return u, ok, err
	})
}

// timedAuthorizer counts the decisions of an authorizer and measures its time.
func (m *meters) timedAuthorizer(z authz.Authorizer) authz.Authorizer {
	return authz.Func(func(ctx context.Context, a authz.Attributes) (authz.Decision, string, error) {
		x := request.ExchangeFrom(ctx)
		begin := time.Since(x.Start)
		d, reason, err := z.Authorize(ctx, a)
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
		m.access.Authorization(how, time.Since(x.Start)-begin)
		return d, reason, err
	})
}

// serveMetrics answers a scrape.
func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request) {
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
	_ = internal.Write(to, s.Families()) // the client is gone
}

// isMetrics reports whether a request is a scrape.
func isMetrics(info *request.Info) bool {
	return !info.IsResource && slices.Equal(info.Segments, []string{"metrics"})
}
