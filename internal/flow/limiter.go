package flow

import "sync"

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
}

// NewLimiter returns a limiter without requests.
func NewLimiter(l Limits) *Limiter { return &Limiter{limits: l, users: map[string][classes]int{}} }

// Enter counts a request of a user, if there is room for it. The caller must call Leave if the
// result is true. A privileged request is counted and never refused.
func (l *Limiter) Enter(c Class, user string, privileged bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.users[user]
	if !privileged && (full(l.total[c], l.limits.Total[c]) || full(of[c], l.limits.PerUser[c])) {
		return false
	}
	of[c]++
	l.total[c]++
	l.users[user] = of
	return true
}

func full(n, limit int) bool { return limit > 0 && n >= limit }

// Leave ends what Enter began.
func (l *Limiter) Leave(c Class, user string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.users[user]
	of[c]--
	l.total[c]--
	if of == [classes]int{} {
		delete(l.users, user)
		return
	}
	l.users[user] = of
}
