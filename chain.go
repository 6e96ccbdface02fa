package kindwright

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/authz/impersonation"
	"github.com/kindwright/kindwright/internal/feature"
	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/negotiate"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/internal/rest"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// writeTimeout bounds every request that writes (ERR-26).
const writeTimeout = 34 * time.Second

// link is one step on the path of a request.
type link struct {
	name string
	wrap func(http.Handler) http.Handler
}

// links is the path of a request through the server, outermost first.
func (s *Server) links() []link {
	always := []link{
		{"audit-id", s.withAuditID},      // the id and headers of every answer, that of a panic included
		{"recover", s.withRecovery},      // a panic below is a 500 for this request and nothing for the others
		{"parse", s.withParsing},         // once: authorization and handlers use this one reading of the request
		{"host", s.forThisHost},          // no page gets here by a name that resolves to this machine
		{"origin", s.fromOwnSite},        // pages of other sites change nothing with what a browser holds for its user
		{"ready", s.whenReady},           // before the caches are full, and after the end, there is no right answer
		{"deadline", s.withDeadline},     // everything below is bounded, the authenticators too
		{"authenticate", s.authenticate}, // who is asking
		{"impersonate", s.impersonate},   // as whom they act, from here on
		{"limits", s.withLimits},         // nobody takes more than their part, before a body is read or others are asked
		{"authorize", s.authorize},       // may they do exactly what was parsed
		{"body", s.withoutBody},          // nobody waits for the body of a GET
	}
	known := slices.IndexFunc(always, func(l link) bool { return l.name == "authenticate" }) + 1
	always = slices.Insert(always, known, s.observingLinks()...)
	return slices.Insert(always, 2, s.optionalLinks()...)
}

// observingLinks are those that tell others of requests whose sender is known.
func (s *Server) observingLinks() []link {
	var out []link
	if s.cfg.tracer != nil {
		out = append(out, link{"trace", s.withSpan}) // first, so that a record that cannot be stored is seen in the span
	}
	if s.audit != nil {
		out = append(out, link{"audit", s.withReceipt}) // the request is recorded before anything is done
	}
	return out
}

// optionalLinks are the links that an option asks for. They come before the request is parsed, so that
// every answer has their headers.
func (s *Server) optionalLinks() []link {
	var out []link
	if len(s.cfg.http.StrictTransport) > 0 {
		out = append(out, link{"hsts", s.withStrictTransport})
	}
	if s.cfg.http.GoawayChance > 0 {
		out = append(out, link{"goaway", s.withGoaway})
	}
	if len(s.cfg.access.Origins) > 0 {
		out = append(out, link{"cors", s.withCORS})
	}
	return out
}

// Chain returns the names of the links that every request passes, outermost first; the last one is
// followed by the dispatch to handlers. Before takes such a name.
func (s *Server) Chain() []string {
	var names []string
	for _, l := range s.links() {
		names = append(names, l.name)
	}
	return names
}

// assemble puts the chain in front of a handler.
func (s *Server) assemble(last http.Handler) (http.Handler, error) {
	links := s.links()
	s.load = newLoad(s.cfg.limits)
	s.meters.inserted = len(s.cfg.inserted) > 0
	for _, in := range s.cfg.inserted {
		i := slices.IndexFunc(links, func(l link) bool { return l.name == in.before })
		if i < 0 {
			return nil, fmt.Errorf("Before(%q): the chain has no such link; it has %q", in.before, s.Chain())
		}
		links = slices.Insert(links, i, link{wrap: in.middleware})
	}
	h := last
	for i, l := range slices.Backward(links) {
		if h = l.wrap(h); guard.IsNil(h) {
			return nil, fmt.Errorf("Before(%q): the middleware returned nil", following(links[i:]))
		}
	}
	return h, nil
}

// following is the name of the first of the links that has one. Middleware has none.
func following(links []link) string {
	i := slices.IndexFunc(links, func(l link) bool { return l.name != "" })
	return links[i].name
}

// maxAuditID bounds an id that the client sends.
const maxAuditID = 64

// withAuditID makes the exchange, gives the request its id, and sets the headers that every answer
// has. It keeps the client's own id if that is sensible (AUD-33). It reports the exchange when the
// request has ended, however it ended.
func (s *Server) withAuditID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		deepen(len(r.Method))
		res := s.newResponse()
		res.ResponseWriter, res.last = w, endsConnection(r)
		id := r.Header.Get("Audit-Id")
		if id == "" || len(id) > maxAuditID || !isToken(id) {
			id = s.newID(&res.random)
		}
		res.common = [...]string{id, "no-cache, private", "nosniff"}
		h, v := w.Header(), res.common[:]
		h["Audit-Id"], h["Cache-Control"], h["X-Content-Type-Options"] = v[0:1:1], v[1:2:2], v[2:3:3]
		x := res.exchange.Begin(r, id, time.Now())
		x.CBOR = s.cbor
		if res.recording != nil {
			s.audit.begin(res.recording, x)
		}
		returned := false
		defer func() {
			if !returned {
				x.Aborted.Store(true)
			} else if !res.hijacked {
				res.begin(http.StatusOK) // which net/http is about to send
			}
			if res.recording != nil {
				s.report(func(*request.Exchange) { res.recording.ends() }, x)
			}
			for _, to := range s.reports {
				s.report(to, x)
			}
		}()
		next.ServeHTTP(res, r.WithContext(x))
		returned = true
	})
}

// endsConnection reports whether no request may follow on the connection of an HTTP/1 request, because
// somebody between may see another end of it than we do: one that asks for another protocol, one in
// chunks, and every one of HTTP/1.0, whose field Transfer-Encoding net/http ignores and removes. The
// chunks of that body would be the next request.
// Source: security vector H6, RFC 9112 section 6.1.
func endsConnection(r *http.Request) bool {
	return r.ProtoMajor == 1 && (r.ProtoMinor == 0 || len(r.Header["Upgrade"]) > 0 || len(r.TransferEncoding) > 0)
}

// report calls one report about an exchange that has ended. The answer is on its way, so a report
// that fails affects nothing else.
func (s *Server) report(to func(*request.Exchange), x *request.Exchange) {
	defer func() {
		if v := recover(); v != nil {
			s.cfg.log.Error(fmt.Errorf("panic: %v", v), "a request could not be reported", "auditID", x.ID, "stack", string(debug.Stack()))
		}
	}()
	to(x)
}

// deepen makes room on the stack while there is little on it. net/http serves each request of an HTTP/2 connection on a new
// goroutine, whose stack of 2 KiB would be copied twice on the way to the handler, the second time with all links of the chain
// on it: a tenth of what a get costs.
//
//go:noinline
func deepen(n int) byte {
	var room [5 << 10]byte
	return room[uint(n)%uint(len(room))]
}

// newID makes an id in room.
func (s *Server) newID(room *[48]byte) string {
	from, to := room[:16], room[16:]
	if _, err := s.random.Read(from); err != nil {
		return "unknown"
	}
	hex.Encode(to, from)
	return string(to)
}

func isToken(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

// withRecovery turns a panic into a 500 (ERR-25). If the answer has begun, it breaks the connection
// off. Otherwise the client could take a part for the whole.
func (s *Server) withRecovery(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(http.ErrAbortHandler) // a handler below asked to break the connection off
			}
			x := request.ExchangeFrom(r.Context())
			s.cfg.log.Error(fmt.Errorf("panic: %v", v), "a request failed", "auditID", x.ID,
				"method", r.Method, "path", r.URL.EscapedPath(), "stack", string(debug.Stack()))
			if x.Record != nil {
				x.Record.Panicked = true
			}
			if x.Code.Load() != 0 {
				panic(http.ErrAbortHandler)
			}
			negotiate.WriteError(w, r, status.Internal(errors.New("a handler panicked")))
		}()
		next.ServeHTTP(w, r)
	})
}

func (s *Server) withParsing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := request.ExchangeFrom(r.Context())
		if crowded(r.Header) {
			negotiate.WriteError(w, r, status.FromStatus(meta.Status{
				Status: meta.StatusFailure, Code: http.StatusRequestHeaderFieldsTooLarge, Reason: meta.ReasonBadRequest,
				Message: fmt.Sprintf("the request has more than %d header fields or %d cookies", maxHeaderFields, maxCookies),
			}))
			return
		}
		if len(r.Header["Content-Length"]) > 1 { // net/http takes the first one over HTTP/2, somebody between another one (H6)
			negotiate.WriteError(w, r, status.BadRequest("the request has several lengths"))
			return
		}
		if err := x.Parse(s.parser, r); err != nil {
			writeParseError(w, r, err)
			return
		}
		if x.Unread == nil {
			if x.Misused == nil {
				s.resources.Find(x)
			}
			s.noteBackend(x, r)
		}
		s.enter(x)
		next.ServeHTTP(w, r)
	})
}

// writeParseError answers a request that asks for something that cannot be.
func writeParseError(w http.ResponseWriter, r *http.Request, err error) {
	if status.IsMethodNotAllowed(err) {
		w.Header().Set("Allow", request.AllowedMethods)
	}
	negotiate.WriteError(w, r, err)
}

// fromOwnSite rejects requests that may change something, or ask for another protocol, and that a
// browser sent for a page of another site. Connections to subresources have rules of their own; see
// connect.Endpoint.Origins.
//
// Source: H10, S3, S24.
func (s *Server) fromOwnSite(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if request.ChangesState(r) && request.FromOtherSite(r, s.origins.exact) && !s.origins.allowPageOf(r) {
			if sub := rest.Subresource(request.ExchangeFrom(r.Context())); sub == nil || !sub.Connects() {
				negotiate.WriteError(w, r, status.Forbidden(meta.GroupResource{}, "", "").WithMessage(
					"a web page of another site sent this request: a server takes changes from its own pages only, and from the origins that it is configured with"))
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// retryWhenReady is how many seconds clients wait before they retry while the server starts or
// stops.
const retryWhenReady = 1

func (s *Server) whenReady(next http.Handler) http.Handler {
	if s.cfg.http.RetryAfterShutdown {
		next = s.withRetryAfter(next)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if phase := s.phase.Load(); phase != serving && !isHealth(request.From(r.Context())) && !s.describesEarly(phase, r) {
			why := "the server is not ready to serve requests"
			if phase == idle {
				why += ": it has not been started" // which a program can forget
			}
			negotiate.WriteError(w, r, status.ServiceUnavailable(why).WithRetryAfter(retryWhenReady))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// describesEarly reports whether a request is for discovery or OpenAPI, and may be answered while the
// server starts.
func (s *Server) describesEarly(phase int32, r *http.Request) bool {
	info := request.From(r.Context())
	if phase != starting || !s.cfg.http.DiscoveryFirst || info.IsResource || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	return len(info.Segments) == 0 || slices.Contains([]string{"api", "apis", "openapi", "version"}, info.Segments[0])
}

func isHealth(info *request.Info) bool {
	return !info.IsResource && len(info.Segments) > 0 && slices.Contains([]string{"healthz", "livez", "readyz"}, info.Segments[0])
}

// withDeadline bounds every request by the server's time-out and the client's, and writes by one
// more (QUERY-22). For a stream the limit covers only the steps before the handler, such as
// authentication and authorization (Z10). Dispatch lifts it.
func (s *Server) withDeadline(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := request.ExchangeFrom(r.Context())
		info := x.Info.Load()
		limit := s.cfg.http.RequestTimeout
		switch {
		case info.Verb == request.VerbWatch:
			defer s.reconnects.enter()()
		case x.Streams, x.Elsewhere: // the time of writes is that of the server's own kinds
		case info.IsResource && info.Verb != request.VerbGet && info.Verb != request.VerbList && info.Verb != request.VerbDeleteCollection:
			limit = min(limit, writeTimeout)
		}
		if t := info.Query.Timeout; t > 0 && !x.Streams {
			limit = min(limit, t)
		}
		if t := info.Query.TimeoutSeconds; t != nil && !x.Streams {
			limit = min(limit, time.Duration(*t)*time.Second)
		}
		if ctx := x.Bound(r.Context(), x.Start.Add(limit)); ctx != r.Context() {
			r = r.WithContext(ctx)
		}
		defer x.Limit.End()
		next.ServeHTTP(w, r)
	})
}

// withoutBody discards a body that no handler reads, before the answer begins. Otherwise net/http
// reads it to its end first, however long that takes, and the handler cannot prevent it (B4, H4).
func (s *Server) withoutBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info := request.ExchangeFrom(r.Context()).Info.Load()
		reads := (info.IsResource || s.isDebug(info)) && r.Method != http.MethodGet && r.Method != http.MethodHead
		if r.ContentLength != 0 && !reads {
			connection := http.NewResponseController(w)
			deadline := time.Now().Add(unreadBody)
			_ = connection.SetReadDeadline(deadline)
			err := r.Body.Close() // reads on for a little, and marks the connection for closing if that was not all
			negotiate.Undeadline(w, r, deadline)
			if err != nil {
				negotiate.WriteError(w, r, status.BadRequest("the request body could not be read completely"))
				return
			}
			r = r.WithContext(r.Context())
			r.Body, r.ContentLength, r.TransferEncoding = http.NoBody, 0, nil // a proxy would announce what never comes
		}
		next.ServeHTTP(w, r)
	})
}

// unreadBody is how long the server waits for the rest of a body that no handler reads.
const unreadBody = 500 * time.Millisecond

func (s *Server) authenticate(next http.Handler) http.Handler {
	refuse := func(w http.ResponseWriter, r *http.Request, st meta.Status) {
		closeAfter(w, r)
		negotiate.WriteError(w, r, status.FromStatus(st))
	}
	known := next
	next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if x := request.ExchangeFrom(r.Context()); x.User.Load().IsAnonymous() && !authn.HasCredential(x.Claim) {
			closeAfter(w, r)
		}
		known.ServeHTTP(w, r)
	})
	identified := authn.Middleware(timedAuthenticator{s.meters, s.authenticator}, authn.WithLogger(s.cfg.log), authn.WithRefusal(refuse), authn.WithContext(request.SetUser), authn.WithImpersonation())(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := request.ExchangeFrom(r.Context())
		x.Claim, x.Judge = r, s.standings.judge
		identified.ServeHTTP(w, r)
	})
}

// closeAfter ends an HTTP/2 connection after the request of somebody unknown. A connection with many
// streams costs a client little and the server a lot, see CVE-2023-44487. The client reads the answer
// and connects anew, as over HTTP/1.1 without keep-alive.
func closeAfter(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 2 {
		w.Header().Set("Connection", "close") // net/http sends GOAWAY after the answer
		leave(r.Context())
	}
}

func (s *Server) authorize(next http.Handler) http.Handler {
	allowed := next
	next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Like any other request, one with a method that cannot be is a 401 or 403 first.
		if err := s.misused(r); err != nil {
			writeParseError(w, r, err)
			return
		}
		allowed.ServeHTTP(w, r)
	})
	told := func(r *http.Request, a authz.Attributes, d authz.Decision, reason string) {
		x := request.ExchangeFrom(r.Context())
		x.SetDecision(d, reason)
		if s.cfg.access.CheckExecution && d == authz.Allow {
			noteAuthorized(x, a)
		}
		if d != authz.Allow && len(s.cfg.authorizers) == 0 {
			s.unauthorized.Do(func() {
				s.cfg.log.Info("a request was rejected because no authorizer was given to New; this is logged once",
					"user", a.User.Name, "verb", a.Verb, "path", r.URL.EscapedPath())
			})
		}
	}
	asking := authz.Middleware(timedAuthorizer{s.meters, s.authorizer}, readAttributes, authz.WithLogger(s.cfg.log), authz.WithRefusal(writeRefusal), authz.WithDecision(told))(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Nobody is asked whether somebody may do what is not known. Who has sent it is recorded by now.
		if err := request.ExchangeFrom(r.Context()).Unread; err != nil {
			writeParseError(w, r, err)
			return
		}
		asking.ServeHTTP(w, r)
	})
}

// impersonation are the rules about who may act as whom, by the decisions of an authorizer.
func (s *Server) impersonation(z authz.Authorizer) impersonation.Rules {
	return impersonation.Rules{
		Authorizer: z, PlainOnly: !s.cfg.gates.Enabled(feature.ConstrainedImpersonation), Group: "authentication." + s.groupDomain(),
		Told: s.meters.observeImpersonation,
	}
}

// impersonate puts the user as whom the sender acts in the sender's place (IMP-02). The exchange
// keeps both.
func (s *Server) impersonate(next http.Handler) http.Handler {
	put := func(ctx context.Context, id impersonation.Identity) context.Context {
		x := request.ExchangeFrom(ctx)
		return x.Impersonate(ctx, &request.Impersonation{User: id.User, Wanted: id.Wanted, Sender: id.Sender, Constraint: id.Constraint})
	}
	return impersonation.Middleware(s.impersonation(sideAuthorizer{s.authorizer}), readAttributes,
		impersonation.WithLogger(s.cfg.log), impersonation.WithRefusal(writeRefusal), impersonation.WithContext(put))(next)
}

func writeRefusal(w http.ResponseWriter, r *http.Request, err *status.Error) {
	negotiate.WriteError(w, r, err)
}

// readAttributes returns what the parsed request asks for.
func readAttributes(r *http.Request) (authz.Attributes, error) {
	return attributesOf(request.ExchangeFrom(r.Context()).Info.Load()), nil
}

// attributesOf returns the authorization attributes of a parsed request; the middleware adds the
// user.
func attributesOf(info *request.Info) authz.Attributes {
	a := authz.Attributes{Verb: info.Verb, Path: info.Path, ResourceRequest: info.IsResource}
	if info.IsResource {
		a.Group, a.Version, a.Resource, a.Subresource = info.Group, info.Version, info.Resource, info.Subresource
		a.Namespace, a.Name = info.AuthorizationNamespace(), info.Name
		a.Labels, a.Fields = info.Query.LabelSelector, info.Query.FieldSelector
	}
	return a
}

// mayCreate checks whether the user of a PUT may create the object that it names (UPDATE-10).
func (s *Server) mayCreate(ctx context.Context, info *request.Info) error {
	a := attributesOf(info)
	a.Verb = request.VerbCreate
	a.User, _ = authn.UserFrom(ctx)
	return authz.Require(ctx, sideAuthorizer{s.authorizer}, a)
}

// verbIgnoreReadErrors is what users need, beside delete, for the deletion of an object that cannot be read
// (KEP-3926).
const verbIgnoreReadErrors = "unsafe-delete-ignore-read-errors"

// mayIgnoreReadErrors asks whether the user of a request may delete its object although nobody can read it.
func (s *Server) mayIgnoreReadErrors(ctx context.Context, info *request.Info) error {
	a := attributesOf(info)
	a.Verb = verbIgnoreReadErrors
	a.User, _ = authn.UserFrom(ctx)
	return authz.Require(ctx, sideAuthorizer{s.authorizer}, a)
}
