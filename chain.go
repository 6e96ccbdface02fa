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
	"github.com/kindwright/kindwright/internal/negotiate"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// writeTimeout bounds every request that changes something (ERR-26).
const writeTimeout = 34 * time.Second

// link is one station on the way of a request.
type link struct {
	name string
	wrap func(http.Handler) http.Handler
}

// links is the way of a request through the server, outermost first.
func (s *Server) links() []link {
	return []link{
		{"audit-id", s.withAuditID},      // the id and headers of every answer, that of a panic included
		{"recover", s.withRecovery},      // a panic below is a 500 for this request and nothing for the others
		{"parse", s.withParsing},         // once: authorization and handlers use this one reading of the request
		{"ready", s.whenReady},           // before the caches are full, and after the end, there is no right answer
		{"deadline", s.withDeadline},     // everything below is bounded, the authenticators too
		{"authenticate", s.authenticate}, // who is asking
		{"authorize", s.authorize},       // may they do exactly what was parsed
		{"body", withoutBody},            // nobody waits for the body of a GET
	}
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
	for _, in := range s.cfg.inserted {
		i := slices.IndexFunc(links, func(l link) bool { return l.name == in.before })
		if i < 0 {
			return nil, fmt.Errorf("Before(%q): the chain has no such link; it has %q", in.before, s.Chain())
		}
		links = slices.Insert(links, i, link{wrap: in.middleware})
	}
	h := last
	for _, l := range slices.Backward(links) {
		h = l.wrap(h)
	}
	return h, nil
}

// maxAuditID bounds an id that the client brings.
const maxAuditID = 64

// withAuditID makes the exchange, gives the request its id, the client's own if it brings a
// sensible one (AUD-33), and sets the headers that every answer has. When the request has ended, it
// reports the exchange, whatever the end was.
func (s *Server) withAuditID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		deepen(len(r.Method))
		res := &response{ResponseWriter: w, last: r.ProtoMajor == 1 && len(r.Header["Upgrade"]) > 0}
		id := r.Header.Get("Audit-Id")
		if id == "" || len(id) > maxAuditID || !isToken(id) {
			id = s.newID(&res.random)
		}
		res.common = [...]string{id, "no-cache, private", "nosniff"}
		h, v := w.Header(), res.common[:]
		h["Audit-Id"], h["Cache-Control"], h["X-Content-Type-Options"] = v[0:1:1], v[1:2:2], v[2:3:3]
		x := res.exchange.Begin(r, id, time.Now())
		returned := false
		defer func() {
			res.finish(returned)
			s.report(x)
		}()
		next.ServeHTTP(res, r.WithContext(x))
		returned = true
	})
}

// report tells everybody who wants to know about an exchange that has ended. The answer is on its
// way: whoever fails here fails alone.
func (s *Server) report(x *request.Exchange) {
	for _, to := range s.reports {
		s.reportTo(to, x)
	}
}

func (s *Server) reportTo(to func(*request.Exchange), x *request.Exchange) {
	defer func() {
		if v := recover(); v != nil {
			s.cfg.log.Error(fmt.Errorf("panic: %v", v), "a request could not be reported", "auditID", x.ID(), "stack", string(debug.Stack()))
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

// newID makes an id, in room for it.
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

// withRecovery turns a panic into a 500 (ERR-25). Where the answer has begun, only breaking the
// connection off can keep the client from taking a part for the whole.
func (s *Server) withRecovery(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(http.ErrAbortHandler) // somebody below wants the connection broken off
			}
			x := request.ExchangeFrom(r.Context())
			s.cfg.log.Error(fmt.Errorf("panic: %v", v), "a request failed", "auditID", x.ID(),
				"method", r.Method, "path", r.URL.Path, "stack", string(debug.Stack()))
			if x.Code() != 0 {
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
		if err := x.Parse(s.parser, r); err != nil {
			if status.ReasonOf(err) == meta.ReasonMethodNotAllowed {
				w.Header().Set("Allow", request.AllowedMethods)
			}
			negotiate.WriteError(w, r, err)
			return
		}
		s.resources.Find(x)
		s.enter(x)
		next.ServeHTTP(w, r)
	})
}

// retryWhenReady is how many seconds clients wait before they ask a server again that is starting
// or stopping.
const retryWhenReady = 1

func (s *Server) whenReady(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if phase := s.phase.Load(); phase != serving && !isHealth(request.From(r.Context())) {
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

func isHealth(info *request.Info) bool {
	return !info.IsResource && len(info.Segments) > 0 && slices.Contains([]string{"healthz", "livez", "readyz"}, info.Segments[0])
}

// withDeadline bounds every request by the server's time-out, the client's, and for writes one more
// (QUERY-22). Of a stream it bounds what stands before the handler (Z10): who is asking, and may
// they. Dispatch lifts that limit.
func (s *Server) withDeadline(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := request.ExchangeFrom(r.Context())
		info, stream := x.Info(), streams(x)
		limit := s.cfg.http.RequestTimeout
		switch {
		case info.Verb == request.VerbWatch:
			defer s.reconnects.enter()()
		case stream:
		case info.IsResource && info.Verb != request.VerbGet && info.Verb != request.VerbList && info.Verb != request.VerbDeleteCollection:
			limit = min(limit, writeTimeout)
		}
		if t := info.Query.Timeout; t > 0 && !stream {
			limit = min(limit, t)
		}
		if t := info.Query.TimeoutSeconds; t != nil && !stream {
			limit = min(limit, time.Duration(*t)*time.Second)
		}
		defer x.End()
		if ctx := x.Bound(r.Context(), x.Start().Add(limit), stream); ctx != r.Context() {
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
}

// withoutBody gets rid of a body that nobody is going to read, before the answer begins: net/http
// reads it to its end first, however long that takes to come, and the handler has no say in it any
// more (B4, H4).
func withoutBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info := request.From(r.Context())
		reads := info.IsResource && r.Method != http.MethodGet && r.Method != http.MethodHead
		if r.ContentLength != 0 && !reads {
			connection := http.NewResponseController(w)
			_ = connection.SetReadDeadline(time.Now().Add(unreadBody))
			err := r.Body.Close() // reads on for a little, and marks the connection for closing if that was not all
			_ = connection.SetReadDeadline(time.Time{})
			if err != nil {
				negotiate.WriteError(w, r, status.BadRequest("the request body could not be read completely"))
				return
			}
			r = r.WithContext(r.Context())
			r.Body = http.NoBody
		}
		next.ServeHTTP(w, r)
	})
}

// unreadBody is how long a body may go on that nobody asked for.
const unreadBody = 500 * time.Millisecond

func (s *Server) authenticate(next http.Handler) http.Handler {
	refuse := func(w http.ResponseWriter, r *http.Request, st meta.Status) {
		negotiate.WriteError(w, r, status.FromStatus(st))
	}
	put := func(ctx context.Context, u authn.User) context.Context {
		return request.ExchangeFrom(ctx).SetUser(ctx, u)
	}
	return authn.Middleware(s.meters.timedAuthenticator(s.authenticator), authn.WithLogger(s.cfg.log), authn.WithRefusal(refuse), authn.WithContext(put))(next)
}

func (s *Server) authorize(next http.Handler) http.Handler {
	refuse := func(w http.ResponseWriter, r *http.Request, err *status.Error) { negotiate.WriteError(w, r, err) }
	attributes := func(r *http.Request) (authz.Attributes, error) { return attributesOf(request.From(r.Context())), nil }
	told := func(r *http.Request, _ authz.Attributes, d authz.Decision, reason string) {
		request.ExchangeFrom(r.Context()).SetDecision(d, reason)
	}
	return authz.Middleware(s.meters.timedAuthorizer(s.authorizer), attributes, authz.WithLogger(s.cfg.log), authz.WithRefusal(refuse), authz.WithDecision(told))(next)
}

// attributesOf says what a parsed request is about to do; the middleware adds the user.
func attributesOf(info *request.Info) authz.Attributes {
	a := authz.Attributes{Verb: info.Verb, Path: info.Path, ResourceRequest: info.IsResource}
	if info.IsResource {
		a.Group, a.Version, a.Resource, a.Subresource = info.Group, info.Version, info.Resource, info.Subresource
		a.Namespace, a.Name = info.AuthorizationNamespace(), info.Name
		a.Labels, a.Fields = info.Query.LabelSelector, info.Query.FieldSelector
	}
	return a
}

// mayCreate asks whether the user of a PUT may create what it names (UPDATE-10).
func (s *Server) mayCreate(ctx context.Context, info *request.Info) error {
	a := attributesOf(info)
	a.Verb = request.VerbCreate
	a.User, _ = authn.UserFrom(ctx)
	decision, reason, err := s.authorizer.Authorize(ctx, a)
	switch {
	case err != nil:
		return status.Internal(err)
	case decision != authz.Allow:
		return authz.Refusal(a, reason)
	}
	return nil
}
