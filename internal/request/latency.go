package request

import (
	"sync/atomic"
	"time"
)

// Part is a part of the work on a request whose time the audit log tells of a slow one.
type Part uint8

// The parts.
const (
	Authentication Part = iota
	Impersonating
	Queueing
	Authorization
	Mutating   // by webhooks, one after the other
	Validating // by webhooks, at the same time
	Storing
	Writing // the answer, to a client that may read slowly

	parts
)

// String names a part as annotations of audit records do.
func (p Part) String() string {
	return [parts]string{"authentication", "impersonation", "apf-queue-wait", "authorization", "mutating-webhook", "validating-webhook", "etcd", "response-write"}[p]
}

// spanName names the part of a span. The store may be any, and audit records speak of etcd, as dashboards do.
func (p Part) spanName() string {
	if p == Storing {
		return "storage"
	}
	return p.String()
}

// latencies are the times of the parts in nanoseconds. Goroutines of one request may add to them.
type latencies [parts]atomic.Int64

// Spend adds to the time of a part that has just ended, and tells the span of a request that is followed.
// A nil exchange drops it.
func (x *Exchange) Spend(p Part, took time.Duration) {
	if x != nil {
		x.latencies[p].Add(int64(took))
		if s := x.Span(); s != nil && p != Writing { // an answer may be written in thousands of parts
			now := time.Now()
			s.Part(p.spanName(), now.Add(-took), now)
		}
	}
}

// Took returns the time of a part so far.
func (x *Exchange) Took(p Part) time.Duration { return time.Duration(x.latencies[p].Load()) }

// Spent yields the parts that took time.
func (x *Exchange) Spent(yield func(Part, time.Duration) bool) {
	for p := range parts {
		if took := x.Took(p); took > 0 && !yield(p, took) {
			return
		}
	}
}
