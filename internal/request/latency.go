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

// latencies are the times of the parts in nanoseconds. Goroutines of one request may add to them.
type latencies [parts]atomic.Int64

// Spend adds to the time of a part. A nil exchange drops it.
func (x *Exchange) Spend(p Part, took time.Duration) {
	if x != nil {
		x.latencies[p].Add(int64(took))
	}
}

// Spent yields the parts that took time.
func (x *Exchange) Spent(yield func(Part, time.Duration) bool) {
	for p := range parts {
		if took := x.latencies[p].Load(); took > 0 && !yield(p, time.Duration(took)) {
			return
		}
	}
}
