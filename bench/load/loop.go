package load

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// tolerated is the number of failures after which a loop gives up. Otherwise it would measure how
// fast a server rejects requests.
const tolerated = 100

// Loop configures how often and how concurrently an operation runs.
type Loop struct {
	Workers    int           // concurrent workers; at least 1
	Operations int           // the maximum in total
	Time       time.Duration // after which no operation starts; 0 means no limit
	AtLeast    int           // operations to start regardless of Time

	// Rate is the number of operations started per second while a worker is free, however long they
	// take. 0 means that each worker starts its next operation as soon as the last has ended.
	Rate float64
}

// Operation runs once. i counts the operations of the loop from 0; worker distinguishes concurrent
// ones. It returns the number of bytes transferred.
type Operation func(ctx context.Context, worker, i int) (int64, error)

// Outcome is the result of a loop.
type Outcome struct {
	Latencies []time.Duration // of successful operations, in ascending order
	Bytes     int64           // transferred by successful operations
	Failed    int
	Failure   error // the first error
	Elapsed   time.Duration
}

// Run runs op until the loop is finished and returns when all calls have ended. It gives up after
// 100 failures, or when ctx ends.
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
	latencies [][]time.Duration // by worker; only that worker appends
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

// await waits until operation i is due, and reports whether it should still run.
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

// Percentile returns the smallest duration that is not exceeded by at least the share p (0 to 1) of
// the ascending durations, or 0 if there are none.
func Percentile(rising []time.Duration, p float64) time.Duration {
	if len(rising) == 0 {
		return 0
	}
	at := int(p*float64(len(rising))+0.999999) - 1
	return rising[min(max(at, 0), len(rising)-1)]
}

// Median returns the median of some figures, or 0 if there are none.
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
