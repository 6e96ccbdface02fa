package kindwright

import (
	"sync"
	"time"
)

// farewellTimeout is how long a stopping server waits for the clients whose watches it has ended.
// They reconnect within milliseconds or not at all.
const farewellTimeout = time.Second

// farewell keeps the port open until the clients whose watches ended with the server have
// reconnected once and were told when to retry (rule 18). A client-go reflector that finds a closed
// port backs off, twice as long after each failure, up to half a minute. It obeys a 429 with
// Retry-After.
type farewell struct {
	mu   sync.Mutex
	open int           // watches being served, before begin
	owed int           // clients that have not reconnected since begin
	all  chan struct{} // closed when owed is 0; nil before begin
}

// enter counts a watch. The caller must call the returned function when the watch has been
// answered.
func (f *farewell) enter() (leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all != nil {
		return f.back
	}
	f.open++
	return f.left
}

func (f *farewell) left() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open--
}

func (f *farewell) back() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.owed == 0 {
		return
	}
	if f.owed--; f.owed == 0 {
		close(f.all)
	}
}

// begin records how many watches are about to end.
func (f *farewell) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all, f.owed = make(chan struct{}), f.open
	if f.owed == 0 {
		close(f.all)
	}
}

// wait returns when the clients of those watches have reconnected and been answered, or after
// farewellTimeout.
func (f *farewell) wait() {
	late := time.NewTimer(farewellTimeout)
	defer late.Stop()
	select {
	case <-f.all:
	case <-late.C:
	}
}
