package kindwright

import (
	"net/http"
	"testing"
	"time"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/metrics/apiserver"
	"github.com/kindwright/kindwright/internal/request"
)

// OnReport adds a function that is told of each request that has ended, and whether its connection
// was broken off.
func (s *Server) OnReport(told func(r Request, aborted bool)) {
	s.reports = append(s.reports, func(x *request.Exchange) { told(RequestFrom(x), x.Aborted.Load()) })
}

// MeterOnce returns a function that counts a request as the chain does: the attempts to find out
// who asks and what they may do, the beginning and the end. Those that are counted do nothing.
func (s *Server) MeterOnce(t testing.TB, r *http.Request) func() {
	x := new(request.Exchange).Begin(r, "", time.Now())
	if err := x.Parse(s.parser, r); err != nil {
		t.Fatal(err)
	}
	s.resources.Find(x)
	r = r.WithContext(x)
	who := timedAuthenticator{s.meters, authn.Func(func(*http.Request) (authn.User, bool, error) { return authn.User{Name: "a"}, true, nil })}
	may := timedAuthorizer{s.meters, authz.AlwaysAllow()}
	return func() {
		s.enter(x)
		_, _, _ = who.Authenticate(r)
		_, _, _ = may.Authorize(x, authz.Attributes{})
		x.Code.Store(200)
		s.count(x)
		x.Meter = apiserver.Running{}
	}
}

// OnBodies adds a function that is told what was sent and answered, as far as it is at hand.
func (s *Server) OnBodies(told func(sent, answered []byte)) {
	s.reports = append(s.reports, func(x *request.Exchange) { told(x.Sent, x.Answer()) })
}

// AwaitReconnects says how long Run waits for clients to reconnect when it stops.
func (s *Server) AwaitReconnects(timeout time.Duration) { s.reconnects.timeout = timeout }
