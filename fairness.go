package kindwright

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/flowcontrol"
	"github.com/kindwright/kindwright/internal/flow"
	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/negotiate"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// Fairness shares what the server does at once by objects of the API: FlowSchema says which requests
// belong together, PriorityLevelConfiguration which part they have of the sum of Limits.Reads and
// Limits.Writes. A request waits for a quarter of its time at most, and is then answered with 429. Its
// Retry-After is a second, and up to 32 where a level turns many away.
// Watches count until their answer begins, other streams and connections do not count, and nobody counts while
// the rest of their body does not come. The limits of Limits for one user's reads
// and writes do not hold then; all others do.
//
//	kindwright.New(db, kindwright.Serve(kinds.ControlPlane(), kinds.FlowControl(), …),
//		kindwright.Fairness(flowcontrol.New("")))
//
// The paths /debug/api_priority_and_fairness/dump_priority_levels, …/dump_queues and …/dump_requests
// show the present state.
//
// Source: APF-03, APF-08.
func Fairness(f *flowcontrol.Fairness) Option {
	return optionFunc(func(c *config) error {
		if guard.IsNil(f) {
			return errors.New("Fairness: it is nil; make one with flowcontrol.New")
		}
		c.fairness = f
		return nil
	})
}

// buildFairness binds what Fairness has described.
func (s *Server) buildFairness() error {
	f := s.cfg.fairness
	if f == nil {
		return nil
	}
	l := s.cfg.limits.withDefaults()
	made, _, err := bind(s, "flowcontrol", f.Name(), func(b watch.Binding) (*flowcontrol.Controller, error) {
		return f.Bind(b, l.Reads+l.Writes)
	})
	if err != nil {
		return err
	}
	s.fairness = made
	made.CollectMetrics(&s.meters.registry)
	return nil
}

// longestWait is how long a request waits for a seat if its time is not known, and at most.
const longestWait = 15 * time.Second

// seat finds a place for a request in the level that it belongs to. It answers those that find none.
func (s *Server) seat(w http.ResponseWriter, r *http.Request, x *request.Exchange, user *authn.User) (flowcontrol.Place, bool) {
	a := attributesOf(x.Info.Load())
	a.User = *user
	if isHealth(x.Info.Load()) { // never waits, whatever the objects say
		place := s.fairness.Find(&a)
		tellPlace(w, &place)
		return place, true
	}
	began := time.Now()
	place, reason := s.fairness.Enter(r.Context(), &a, 1, patienceOf(r.Context()))
	x.Spend(request.Queueing, time.Since(began))
	tellPlace(w, &place)
	if reason != "" {
		negotiate.Linger(w, r)
		negotiate.WriteError(w, r, status.TooManyRequests(noSeat(reason), place.RetryAfter()))
		return place, false
	}
	return place, true
}

// patienceOf is how long a request may wait for a seat: a quarter of its time.
func patienceOf(ctx context.Context) time.Duration {
	patience := longestWait
	if deadline, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(deadline)/4)
	}
	return patience
}

// heldSeat is the place of a request whose body is read. It is given back while the body does not come.
type heldSeat struct {
	server   *Server
	exchange *request.Exchange
	asks     authz.Attributes

	mu      sync.Mutex
	place   flowcontrol.Place // guarded by mu, as is what follows
	waiting flow.Hold         // of a request without a seat
	away    bool
	left    bool // the request has ended
}

// hold makes the place of a request one that it gives back while its body does not come.
func (s *Server) hold(x *request.Exchange, user *authn.User, place flowcontrol.Place) *heldSeat {
	h := &heldSeat{server: s, exchange: x, asks: attributesOf(x.Info.Load()), place: place, waiting: s.load.bodies.For(user.Name)}
	h.asks.User = *user
	x.Seat = h
	return h
}

// Yield gives the seat back, and counts the request as a body that arrives.
func (h *heldSeat) Yield() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.away || h.left {
		return true
	}
	h.place.Leave()
	h.away = true
	return h.waiting.Count()
}

// Return waits for a seat again. Enter has decided where the request belongs, and does so anew: the
// objects may have changed.
func (h *heldSeat) Return(ctx context.Context) error {
	h.mu.Lock()
	away := h.away
	h.mu.Unlock()
	if !away {
		return nil
	}
	began := time.Now()
	place, reason := h.server.fairness.Enter(ctx, &h.asks, 1, patienceOf(ctx))
	h.exchange.Spend(request.Queueing, time.Since(began))
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting.Release()
	if reason != "" {
		return status.TooManyRequests(noSeat(reason), place.RetryAfter())
	}
	h.place, h.away = place, false
	return nil
}

// leave gives back what the request has.
func (h *heldSeat) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left = true
	h.place.Leave()
	h.waiting.Release()
}

func noSeat(reason string) string {
	return "too many requests are in flight at their priority level (" + reason + "), please try again later"
}

// tellPlace says in the header where a request belongs. Source: APF-07.
func tellPlace(w http.ResponseWriter, p *flowcontrol.Place) {
	ids, h := p.IDs()[:], w.Header()
	if ids[0] != "" {
		h["X-Kubernetes-Pf-Flowschema-Uid"] = ids[0:1:1]
	}
	if ids[1] != "" {
		h["X-Kubernetes-Pf-Prioritylevel-Uid"] = ids[1:2:2]
	}
}

// isFairnessDump reports whether a request is for one of the paths that show what Fairness does.
func (s *Server) isFairnessDump(info *request.Info) bool {
	return s.fairness != nil && !info.IsResource && len(info.Segments) == 3 && info.Segments[0] == "debug" &&
		info.Segments[1] == "api_priority_and_fairness" && slices.Contains([]string{"dump_priority_levels", "dump_queues", "dump_requests"}, info.Segments[2])
}

func (s *Server) serveFairnessDump(w http.ResponseWriter, r *http.Request, info *request.Info) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		negotiate.WriteError(w, r, status.MethodNotAllowed(meta.GroupResource{}, info.Verb))
		return
	}
	text, _ := s.fairness.Dump(strings.TrimPrefix(info.Segments[2], "dump_"))
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(text)) // the client may be gone
}
