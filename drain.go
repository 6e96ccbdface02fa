package kindwright

import (
	"cmp"
	"sync"
	"time"
)

// reconnectTimeout is how long a stopping server waits for the clients whose watches it has ended.
// They reconnect within milliseconds or not at all.
const reconnectTimeout = time.Second

// reconnects keeps the port open until the clients whose watches ended with the server have
// reconnected once and were told when to retry (rule 18). A client-go reflector that finds a closed
// port backs off, twice as long after each failure, up to half a minute. It obeys a 429 with
// Retry-After.
type reconnects struct {
	timeout time.Duration // of wait; 0 stands for reconnectTimeout

	mu   sync.Mutex
	open int           // watches being served, before begin
	owed int           // clients that have not reconnected since begin
	all  chan struct{} // closed when owed is 0; nil before begin
}

// enter counts a watch. The caller must call the returned function when the watch has been
// answered.
func (r *reconnects) enter() (leave func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all != nil {
		return r.back
	}
	r.open++
	return r.left
}

func (r *reconnects) left() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open--
}

func (r *reconnects) back() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owed == 0 {
		return
	}
	if r.owed--; r.owed == 0 {
		close(r.all)
	}
}

// begin records how many watches are about to end.
func (r *reconnects) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all, r.owed = make(chan struct{}), r.open
	if r.owed == 0 {
		close(r.all)
	}
}

// wait returns when the clients of those watches have reconnected and been answered, or after the
// timeout.
func (r *reconnects) wait() {
	late := time.NewTimer(cmp.Or(r.timeout, reconnectTimeout))
	defer late.Stop()
	select {
	case <-r.all:
	case <-late.C:
	}
}
