package kindwright

import (
	"sync"
	"time"
)

// farewellTimeout is how long a server that stops waits for the clients whose watches it has ended. They come back within
// milliseconds or not at all.
const farewellTimeout = time.Second

// farewell lets the clients whose watches end with the server come back once more, to be told when to try again (rule 18).
// Where they meet a closed port instead, client-go's reflectors take it for a failure and wait, twice as long after each
// one, up to half a minute; 429 with Retry-After they take at its word.
type farewell struct {
	mu   sync.Mutex
	open int           // watches being answered, before the end has begun
	owed int           // clients that have not come back since
	all  chan struct{} // closed when none are left; nil before the end has begun
}

// enter counts a watch. The returned function is to be called when it has been answered.
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

// begin notes whose watches are about to end.
func (f *farewell) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all, f.owed = make(chan struct{}), f.open
	if f.owed == 0 {
		close(f.all)
	}
}

// wait returns when the clients of those watches have come back and been answered, or after a while.
func (f *farewell) wait() {
	late := time.NewTimer(farewellTimeout)
	defer late.Stop()
	select {
	case <-f.all:
	case <-late.C:
	}
}
