package kindwright

import (
	"net/http"
	"sync"
	"time"

	"github.com/kindwright/kindwright/internal/negotiate"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/status"
)

// retryElsewhere is how many seconds clients wait that come while the server stops.
const retryElsewhere = 5

// refusal rejects requests while the server stops, on a port that is still open. It counts the
// requests that came before.
type refusal struct {
	mu       sync.Mutex
	refusing bool
	open     int           // requests in flight without watches and connections
	none     chan struct{} // closed when refusing and open is 0
}

// withRetryAfter rejects requests that arrive after the shutdown delay. Source: OPS-03.
func (s *Server) withRetryAfter(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := request.ExchangeFrom(r.Context())
		if x.Streams || isHealth(x.Info.Load()) { // streams are told in rest; health is what the operator looks at
			next.ServeHTTP(w, r)
			return
		}
		if !s.refusal.enter() {
			w.Header().Set("Connection", "close")
			negotiate.WriteError(w, r, status.TooManyRequests("the server is shutting down", retryElsewhere))
			return
		}
		defer s.refusal.leave()
		next.ServeHTTP(w, r)
	})
}

func (f *refusal) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refusing {
		return false
	}
	f.open++
	return true
}

func (f *refusal) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open--; f.refusing && f.open == 0 {
		close(f.none)
	}
}

// begin rejects requests from now on.
func (f *refusal) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refusing, f.none = true, make(chan struct{})
	if f.open == 0 {
		close(f.none)
	}
}

// wait returns when the requests before begin are answered, or after the timeout.
func (f *refusal) wait(timeout time.Duration) {
	late := time.NewTimer(timeout)
	defer late.Stop()
	select {
	case <-f.none:
	case <-late.C:
	}
}
