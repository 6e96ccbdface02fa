package load

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// tolerated is after how many failed operations a loop gives up: a server that refuses everything would otherwise be
// measured at refusing.
const tolerated = 100

// Loop says how often and by how many an operation is run.
type Loop struct {
	Workers    int           // at once; at least 1
	Operations int           // together, at most
	Time       time.Duration // no operation begins later than this after the start; 0: no limit
	AtLeast    int           // operations begin in spite of Time

	// Rate is how many operations begin in a second, however long they take, as long as a worker is free. 0: each worker
	// begins its next one as soon as the last has ended.
	Rate float64
}

// Operation does something once. i counts the operations of the loop from 0; worker tells apart those that run at once. It
// returns the bytes it moved.
type Operation func(ctx context.Context, worker, i int) (int64, error)

// Outcome is what became of a loop.
type Outcome struct {
	Latencies []time.Duration // of those that succeeded, rising
	Bytes     int64           // moved by those that succeeded
	Failed    int
	Failure   error // the first one
	Elapsed   time.Duration
}

// Run runs op and returns when every call of it has ended. It gives up after 100 failures, and when ctx ends.
func (l Loop) Run(ctx context.Context, op Operation) Outcome {
	r := &running{Loop: l, op: op, start: time.Now(), latencies: make([][]time.Duration, max(l.Workers, 1))}
	var workers sync.WaitGroup
	for w := range r.latencies {
		workers.Go(func() { r.work(ctx, w) })
	}
	workers.Wait()
	out := Outcome{
		Latencies: slices.Concat(r.latencies...),
		Bytes:     r.bytes.Load(),
		Failed:    int(r.failed.Load()),
		Elapsed:   time.Since(r.start),
	}
	if first := r.first.Load(); first != nil {
		out.Failure = *first
	}
	slices.Sort(out.Latencies)
	return out
}

type running struct {
	Loop
	op        Operation
	start     time.Time
	next      atomic.Int64
	bytes     atomic.Int64
	failed    atomic.Int64
	first     atomic.Pointer[error]
	latencies [][]time.Duration // by worker, which alone appends
}

func (r *running) work(ctx context.Context, w int) {
	for {
		i := int(r.next.Add(1)) - 1
		if i >= r.Operations || r.failed.Load() >= tolerated || !r.await(ctx, i) {
			return
		}
		began := time.Now()
		n, err := r.op(ctx, w, i)
		if err != nil {
			r.failed.Add(1)
			r.first.CompareAndSwap(nil, &err)
			continue
		}
		r.latencies[w] = append(r.latencies[w], time.Since(began))
		r.bytes.Add(n)
	}
}

// await returns when operation i is due, and whether it is still to be run.
func (r *running) await(ctx context.Context, i int) bool {
	if r.Rate > 0 {
		due := r.start.Add(time.Duration(float64(i) / r.Rate * float64(time.Second)))
		timer := time.NewTimer(time.Until(due))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil && (r.Time == 0 || i < r.AtLeast || time.Since(r.start) < r.Time)
}

// Percentile returns the smallest of the rising durations that at least the share p (0 to 1) of them do not exceed, and 0
// if there are none.
func Percentile(rising []time.Duration, p float64) time.Duration {
	if len(rising) == 0 {
		return 0
	}
	at := int(p*float64(len(rising))+0.999999) - 1
	return rising[min(max(at, 0), len(rising)-1)]
}

// Median returns the middle one of some figures, or the mean of the two in the middle; 0 if there are none.
func Median(figures []float64) float64 {
	s := slices.Sorted(slices.Values(figures))
	switch n := len(s); {
	case n == 0:
		return 0
	case n%2 == 1:
		return s[n/2]
	default:
		return (s[n/2-1] + s[n/2]) / 2
	}
}
