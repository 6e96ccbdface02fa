package kindwright

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/flow"
	"github.com/kindwright/kindwright/internal/negotiate"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/status"
)

// Limits bounds what clients take of the server at once. A read or a write that is above a limit waits
// for two seconds at most. Then, and for all else that is above a limit, the answer is 429 with
// Retry-After, before the body is read; clients of Kubernetes wait and repeat it. Health paths have
// no limit, and members of system:masters are counted and never refused, as in Kubernetes.
//
// With [Fairness], objects share the sum of Reads and Writes, and ReadsPerUser and WritesPerUser do not
// hold.
//
// A limit cannot be turned off: New refuses negative numbers. To have almost none, give a large one.
type Limits struct {
	// Reads and Writes are how many requests may be in flight that read and that write, without
	// watches and connections. Default 400 and 200, as in Kubernetes.
	Reads, Writes int

	// ReadsPerUser and WritesPerUser are how many of them may be of one user. Default half of them.
	ReadsPerUser, WritesPerUser int

	// StreamsPerUser is how many watches and connections one user may have. Default 4000: a program
	// with an informer for each of a hundred kinds has a hundred, and the agent of a node that
	// watches each object it needs has some thousands. The limit keeps one user from taking all.
	StreamsPerUser int

	// ConnectionsPerUser is how many network connections of Run one user may have. A connection
	// belongs to the first user who sends a request on it. Default 4000.
	ConnectionsPerUser int

	// BodyBytes is how much memory request bodies may take while they arrive, of which one user can
	// take half. The first 64 KiB of each are not counted. Default 96 MiB.
	BodyBytes int

	// DecodeBytes is how much memory may be in use to decode bodies: ten times their length. A body
	// waits for its turn. A third is for bodies of up to 256 KiB; larger ones leave one processor
	// to all others. A body that changes a stored object of more than 64 KiB counts as if it were as
	// long as the rest of that. Default 96 MiB, which is two bodies of 3 MiB and thirty of 100 KiB.
	DecodeBytes int
}

func (l Limits) apply(c *config) error {
	merge(&c.limits, l)
	return errors.Join(
		notNegative("Limits.Reads", l.Reads), notNegative("Limits.Writes", l.Writes),
		notNegative("Limits.ReadsPerUser", l.ReadsPerUser), notNegative("Limits.WritesPerUser", l.WritesPerUser),
		notNegative("Limits.StreamsPerUser", l.StreamsPerUser), notNegative("Limits.ConnectionsPerUser", l.ConnectionsPerUser),
		notNegative("Limits.BodyBytes", l.BodyBytes), notNegative("Limits.DecodeBytes", l.DecodeBytes))
}

// withDefaults fills in what is zero.
func (l Limits) withDefaults() Limits {
	set := func(to *int, value int) {
		if *to == 0 {
			*to = value
		}
	}
	set(&l.Reads, 400)
	set(&l.Writes, 200)
	set(&l.ReadsPerUser, (l.Reads+1)/2)
	set(&l.WritesPerUser, (l.Writes+1)/2)
	set(&l.StreamsPerUser, 4000)
	set(&l.ConnectionsPerUser, 4000)
	set(&l.BodyBytes, 96<<20)
	set(&l.DecodeBytes, 96<<20)
	return l
}

// check refuses the limit of one user that the limit of all would hide.
func (l Limits) check() error {
	l = l.withDefaults()
	var problems []error
	for _, p := range []struct {
		field, of    string
		perUser, all int
	}{
		{"Limits.ReadsPerUser", "Limits.Reads", l.ReadsPerUser, l.Reads},
		{"Limits.WritesPerUser", "Limits.Writes", l.WritesPerUser, l.Writes},
	} {
		if p.perUser > p.all {
			problems = append(problems, fmt.Errorf("%s: %d must not be above %s, which is %d", p.field, p.perUser, p.of, p.all))
		}
	}
	return errors.Join(problems...)
}

// load counts what clients take.
type load struct {
	flights *flow.Limiter
	bodies  *flow.Bodies

	mu          sync.Mutex
	connections map[net.Conn]*connection // those that Run has accepted
}

func newLoad(l Limits) *load {
	l = l.withDefaults()
	var of flow.Limits
	of.Total[flow.Reading], of.PerUser[flow.Reading] = l.Reads, l.ReadsPerUser
	of.Total[flow.Writing], of.PerUser[flow.Writing] = l.Writes, l.WritesPerUser
	of.PerUser[flow.Streaming], of.PerUser[flow.Connected] = l.StreamsPerUser, l.ConnectionsPerUser
	const unbounded = 1 << 50
	bound := func(n int) int64 {
		if n < 0 {
			return unbounded
		}
		return int64(n)
	}
	return &load{
		flights: flow.NewLimiter(of), bodies: flow.NewBodies(bound(l.BodyBytes), bound(l.DecodeBytes)),
		connections: map[net.Conn]*connection{},
	}
}

// retryWhenBusy is how many seconds clients wait before they repeat what was above a limit.
const retryWhenBusy = 1

// withLimits counts the requests in flight of each user and refuses those above the limits (S1, S6).
// It comes before authorization, which may ask others, and before every read of a body.
func (s *Server) withLimits(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := request.ExchangeFrom(r.Context())
		user, _ := authn.UserFrom(r.Context())
		if isHealth(x.Info.Load()) {
			if s.fairness != nil {
				s.seat(w, r, x, &user)
			}
			next.ServeHTTP(w, r)
			return
		}
		class, privileged := classOf(x, r), slices.Contains(user.Groups, authn.GroupMasters)
		if c, ok := r.Context().Value(connectionKey{}).(*connection); ok && !c.admit(s.load, user.Name, privileged) {
			w.Header().Set("Connection", "close")
			busy(w, r, "this user has too many connections")
			return
		}
		x.Body = s.load.bodies.For(user.Name)
		defer x.Body.Release()
		// As in Kubernetes, of all streams only watches have a seat, until they begin. Whoever connects may wait for
		// somebody else before that, such as a pod that does not answer, and nobody knows how long.
		if s.fairness != nil && (class != flow.Streaming || x.Info.Load().Verb == request.VerbWatch) {
			place, ok := s.seat(w, r, x, &user)
			if !ok {
				return
			}
			switch {
			case class == flow.Writing && r.ContentLength != 0:
				held := s.hold(x, &user, place)
				defer held.leave()
				next.ServeHTTP(w, r)
				return
			case class != flow.Streaming:
				defer place.Leave()
				next.ServeHTTP(w, r)
				return
			}
			leave := sync.OnceFunc(place.Leave) // whichever goroutine of a tunnel answers
			defer leave()
			x.Begun = leave
		}
		if !s.load.enter(r.Context(), x, class, user.Name, privileged) {
			if class == flow.Streaming {
				busy(w, r, "this user has too many watches and connections")
			} else {
				busy(w, r, "too many requests are in flight")
			}
			return
		}
		defer s.load.flights.Leave(class, user.Name)
		next.ServeHTTP(w, r)
	})
}

// enter counts a request in flight. Reads and writes wait for room; streams do not, for it may
// come in hours.
func (l *load) enter(ctx context.Context, x *request.Exchange, class flow.Class, user string, privileged bool) bool {
	if l.flights.Enter(class, user, privileged) {
		return true
	}
	if class == flow.Streaming {
		return false
	}
	began := time.Now()
	defer func() { x.Spend(request.Queueing, time.Since(began)) }()
	return l.flights.Wait(ctx, class, user, privileged, flow.Patience)
}

func busy(w http.ResponseWriter, r *http.Request, why string) {
	negotiate.Linger(w, r)
	negotiate.WriteError(w, r, status.TooManyRequests(why+", please try again later", retryWhenBusy))
}

func classOf(x *request.Exchange, r *http.Request) flow.Class {
	switch {
	case x.Streams:
		return flow.Streaming
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		return flow.Reading
	}
	return flow.Writing
}

// connection is a network connection. It belongs to the first user who sends a request on it.
type connection struct {
	mu     sync.Mutex
	user   string
	owned  bool
	closed bool
	fair   *fairConn // below TLS

	requests int       // that a handler serves now
	since    time.Time // the end of the last one; zero before that
}

type connectionKey struct{}

// open is the ConnContext of Run's server.
func (l *load) open(ctx context.Context, conn net.Conn) context.Context {
	c := &connection{}
	if t, ok := conn.(*tls.Conn); ok {
		c.fair, _ = t.NetConn().(*fairConn)
	}
	l.mu.Lock()
	l.connections[conn] = c
	l.mu.Unlock()
	return context.WithValue(ctx, connectionKey{}, c)
}

// leave says that the connection of a request was told to end. What its client still sends is read slowly.
func leave(ctx context.Context) {
	if c, ok := ctx.Value(connectionKey{}).(*connection); ok && c.fair != nil {
		c.fair.leaving.Store(true)
	}
}

// changed is the ConnState of Run's server.
func (l *load) changed(conn net.Conn, state http.ConnState) {
	if state != http.StateClosed && state != http.StateHijacked {
		return
	}
	l.mu.Lock()
	c := l.connections[conn]
	delete(l.connections, conn)
	l.mu.Unlock()
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed = true; c.owned {
		c.owned = false
		l.flights.Leave(flow.Connected, c.user)
	}
}

// admit counts the connection for the user of its first request and reports whether there is room.
func (c *connection) admit(l *load, user string, privileged bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owned || c.closed {
		return true
	}
	c.user = user
	c.owned = l.flights.Enter(flow.Connected, user, privileged)
	return c.owned
}

// The limits of headers, beside that of their bytes. A cookie is nothing that the server reads.
const (
	maxHeaderFields = 1000
	maxCookies      = 200
)

// crowded reports whether a header has more fields or cookies than any client needs (S13, H7).
func crowded(h http.Header) bool {
	fields, cookies := 0, 0
	for _, values := range h {
		fields += len(values)
	}
	for _, value := range h["Cookie"] {
		cookies += 1 + strings.Count(value, ";")
	}
	return fields > maxHeaderFields || cookies > maxCookies
}
