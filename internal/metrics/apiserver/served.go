package apiserver

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/internal/metrics"
)

// A Row counts the requests of one call for one resource. The first of them makes it, with all that it
// needs, so that counting is a handful of additions.
type Row struct {
	call Call

	duration *metrics.Histogram
	sent     *metrics.Histogram // nil but for reads
	received *metrics.Histogram // nil but for writes of resources
	events   *metrics.Histogram // nil but for watches, as is the next one
	initial  *metrics.Histogram

	codes   atomic.Pointer[tally]
	running atomic.Int64 // long-running requests
	long    atomic.Bool  // there has been one
	aborted atomic.Uint64
}

// A tally counts the answers with one code. Few codes occur, so that a list finds them fast.
type tally struct {
	code int // folded
	n    atomic.Uint64
	next *tally
}

// row returns the row of a call, and makes it if it is the first.
func (s *Served) row(c Call) *Row {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	rows := *s.rows.Load()
	at, found := slices.BinarySearchFunc(rows, c, func(row *Row, c Call) int {
		return cmp.Or(cmp.Compare(row.call.Verb, c.Verb), cmp.Compare(row.call.Scope, c.Scope), cmp.Compare(row.call.DryRun, c.DryRun))
	})
	if found {
		return rows[at]
	}
	row := &Row{call: c, duration: metrics.NewHistogram(durations)}
	switch {
	case c.Verb == Get || c.Verb == List:
		row.sent = metrics.NewHistogram(answerSizes)
	case c.Verb == Watch:
		row.events, row.initial = metrics.NewHistogram(eventSizes), metrics.NewHistogram(initialLists)
	case c.bodyName() != "" && s.Resource.Resource != "":
		row.received = metrics.NewHistogram(bodySizes)
	}
	rows = slices.Insert(slices.Clone(rows), at, row)
	s.rows.Store(&rows)
	return row
}

// A Running is a request that is being counted. The zero value is none.
type Running struct {
	row   *Row
	gauge *atomic.Int64 // that the request is part of
}

// Begin begins to count a request: among the long-running ones, or among those in flight that write
// something, or do not.
func (s *Served) Begin(c Call, long, writes bool) (r Running) {
	for _, row := range *s.rows.Load() {
		if row.call == c {
			r.row = row
			break
		}
	}
	if r.row == nil {
		r.row = s.row(c)
	}
	switch {
	case long:
		r.row.long.Store(true)
		r.gauge = &r.row.running
	case writes:
		r.gauge = &s.of.writing
	default:
		r.gauge = &s.of.reading
	}
	r.gauge.Add(1)
	return r
}

// An Outcome says how a request ended.
type Outcome struct {
	Code     int           // of the response; 0 if there was none
	Duration time.Duration // from arrival to the end of the response
	Sent     int64         // bytes of the response's body
	Received int64         // bytes of the request's body; 0 if nobody read it
	Aborted  bool          // the response broke off
}

// End counts the request as finished.
func (r Running) End(o Outcome) {
	r.gauge.Add(-1)
	row := r.row
	row.tally(fold(o.Code)).n.Add(1)
	row.duration.Observe(o.Duration.Seconds())
	if row.sent != nil {
		row.sent.Observe(float64(o.Sent))
	}
	if row.received != nil && o.Received > 0 {
		row.received.Observe(float64(o.Received))
	}
	if o.Aborted {
		row.aborted.Add(1)
	}
}

// tally returns the tally of a code, and makes it if needed.
func (row *Row) tally(code int) *tally {
	for {
		first := row.codes.Load()
		for t := first; t != nil; t = t.next {
			if t.code == code {
				return t
			}
		}
		if fresh := (&tally{code: code, next: first}); row.codes.CompareAndSwap(first, fresh) {
			return fresh
		}
	}
}

// Event counts an event sent to the client of a watch.
func (r Running) Event(bytes int) {
	if r.row != nil && r.row.events != nil {
		r.row.events.Observe(float64(bytes))
	}
}

// InitialList counts that the client of a watch has got the objects that the watch began with, after
// this time.
func (r Running) InitialList(took time.Duration) {
	if r.row != nil && r.row.initial != nil {
		r.row.initial.Observe(took.Seconds())
	}
}
