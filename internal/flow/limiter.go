package flow

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Class is a sort of request that has limits of its own.
type Class int

// The classes.
const (
	Reading Class = iota // a request that changes nothing
	Writing
	Streaming // a watch or a connection: it may last for hours
	Connected // a network connection
	classes
)

// Limits says how many requests there may be at once in a class. Zero and less mean no limit.
type Limits struct {
	Total, PerUser [classes]int
}

// Limiter counts requests in flight. It is safe for concurrent use.
type Limiter struct {
	limits Limits

	mu    sync.Mutex
	total [classes]int
	users map[string][classes]int // of those with a request in flight
	queue [classes][]*entrant     // those that wait, in order
}

// entrant is a request that waits for room.
type entrant struct {
	user    string
	entered chan struct{} // closed when it is counted
}

// The bounds of a queue.
const (
	maxWaiting        = 2000
	maxWaitingPerUser = 400
)

// NewLimiter returns a limiter without requests.
func NewLimiter(l Limits) *Limiter { return &Limiter{limits: l, users: map[string][classes]int{}} }

// Enter counts a request of a user, if there is room for it. The caller must call Leave if the
// result is true. A privileged request is counted and never refused.
func (l *Limiter) Enter(c Class, user string, privileged bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !privileged && !l.room(c, user) {
		return false
	}
	l.count(c, user)
	return true
}

// Wait is Enter for a request that may wait for room until the context is done, but no longer than
// patience. A burst is served so, and clients that come back at once after each refusal take a place
// in the queue and no processor time. A queue that is full refuses at once.
func (l *Limiter) Wait(ctx context.Context, c Class, user string, privileged bool, patience time.Duration) bool {
	l.mu.Lock()
	if privileged || l.room(c, user) {
		l.count(c, user)
		l.mu.Unlock()
		return true
	}
	if len(l.queue[c]) >= maxWaiting || l.waiting(c, user) >= maxWaitingPerUser {
		l.mu.Unlock()
		return false
	}
	e := &entrant{user: user, entered: make(chan struct{})}
	l.queue[c] = append(l.queue[c], e)
	l.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-e.entered:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.queue[c], e)
	if i < 0 {
		return true // it was counted meanwhile
	}
	l.queue[c] = slices.Delete(l.queue[c], i, i+1)
	return false
}

func (l *Limiter) room(c Class, user string) bool {
	return !full(l.total[c], l.limits.Total[c]) && !full(l.users[user][c], l.limits.PerUser[c])
}

func (l *Limiter) count(c Class, user string) {
	of := l.users[user]
	of[c]++
	l.total[c]++
	l.users[user] = of
}

func (l *Limiter) waiting(c Class, user string) (n int) {
	for _, e := range l.queue[c] {
		if e.user == user {
			n++
		}
	}
	return n
}

func full(n, limit int) bool { return limit > 0 && n >= limit }

// Leave ends what Enter or Wait began.
func (l *Limiter) Leave(c Class, user string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.users[user]
	of[c]--
	l.total[c]--
	if l.users[user] = of; of == [classes]int{} {
		delete(l.users, user)
	}
	if i := slices.IndexFunc(l.queue[c], func(e *entrant) bool { return l.room(c, e.user) }); i >= 0 {
		e := l.queue[c][i]
		l.queue[c] = slices.Delete(l.queue[c], i, i+1)
		l.count(c, e.user)
		close(e.entered)
	}
}
