package aggregate

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/flow"
	"github.com/kindwright/kindwright/internal/request"
)

// patience is how long a request waits for a place. A burst at a back end that answers is over sooner.
// At one that hangs, each that waits takes a place of the server.
const patience = 100 * time.Millisecond

// newPlaces bounds the requests in flight at one back end.
func (a *Aggregator) newPlaces() *flow.Limiter {
	var of flow.Limits
	n := a.cfg.InFlight
	of.Total[flow.Reading], of.Total[flow.Writing] = n, half(n)
	of.PerUser[flow.Reading], of.PerUser[flow.Writing] = half(n), half(half(n))
	return flow.NewLimiter(of)
}

func half(n int) int { return (n + 1) / 2 }

// enter counts a request in flight. The caller calls leave when it has been answered. Members of
// system:masters are counted and never refused, as by the server.
func (b *backend) enter(ctx context.Context, r *http.Request, x *request.Exchange, u *authn.User) (leave func(), ok bool) {
	if x.Streams {
		return func() {}, true
	}
	class := flow.Writing
	if reads(r.Method) {
		class = flow.Reading
	}
	if !b.places.Wait(ctx, class, u.Name, slices.Contains(u.Groups, authn.GroupMasters), patience) {
		return nil, false
	}
	return func() { b.places.Leave(class, u.Name) }, true
}
