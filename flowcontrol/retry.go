package flowcontrol

import (
	"sync"
	"time"
)

// maxRetryAfter is the longest time that a client is asked to wait, in seconds.
const maxRetryAfter = 32

// refusals counts the requests that a level has turned away, second by second. From that follows how
// long clients are asked to wait: while many are turned away the time is doubled, and while few are it
// goes back by a second. All times are in seconds.
//
// Source: the rules are those of kube-apiserver.
type refusals struct {
	mu     sync.Mutex
	recent []refused // by second; the last one is still counted
	after  int64     // 0 is 1
	raised int64     // when after was doubled
}

type refused struct{ second, count int64 }

// note counts a request that is turned away now.
func (r *refusals) note(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := at.Unix()
	if n := len(r.recent); n > 0 && r.recent[n-1].second == now {
		r.recent[n-1].count++
		return
	}
	r.review(now)
	first := 0
	for first < len(r.recent) && now-r.recent[first].second > maxRetryAfter {
		first++
	}
	r.recent = append(r.recent[first:], refused{now, 1})
}

// review changes the time to wait by what was turned away in as long a time before now.
func (r *refusals) review(now int64) {
	after := max(r.after, 1)
	lately := int64(0)
	for _, one := range r.recent {
		if now-one.second <= after {
			lately += one.count
		}
	}
	switch {
	case lately >= 3*after && now-r.raised >= after: // one burst raises it once
		r.after, r.raised = min(2*after, maxRetryAfter), now
	case lately < after:
		r.after = max(after-1, 1)
	}
}

func (r *refusals) seconds() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int(max(r.after, 1))
}

// RetryAfter returns how many seconds a client that has found no seat is to wait before it tries again:
// more, the more requests the level has turned away lately.
func (p *Place) RetryAfter() int { return p.of.share.refused.seconds() }
