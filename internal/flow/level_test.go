package flow_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/flow"
)

func level(seats int, q flow.Queuing) *flow.Level {
	l := flow.NewLevel()
	l.Configure(seats, false, q, time.Now())
	return l
}

var queues = flow.Queuing{Queues: 64, Hand: 8, Length: 50}

func enter(t *testing.T, l *flow.Level, hash uint64, width int) flow.Seat {
	t.Helper()
	s, how := l.Enter(t.Context(), hash, width, time.Hour)
	require.Equal(t, flow.Seated, how)
	return s
}

// APF-05: what happens above the limit.
func TestAPF_05_AboveTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reject := level(1, flow.Queuing{})
		seat := enter(t, reject, 1, 1)
		_, how := reject.Enter(t.Context(), 2, 1, time.Hour)
		require.Equal(t, flow.NoSeat, how)
		seat.Leave()
		enter(t, reject, 2, 1).Leave()

		queue := level(1, flow.Queuing{Queues: 1, Hand: 1, Length: 2})
		seat = enter(t, queue, 1, 1)
		_, how = queue.Enter(t.Context(), 2, 1, time.Second)
		require.Equal(t, flow.TimedOut, how)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, how = queue.Enter(ctx, 2, 1, time.Hour)
		require.Equal(t, flow.Cancelled, how)
		var waiting sync.WaitGroup
		for range 2 {
			waiting.Go(func() { enter(t, queue, 2, 1).Leave() })
		}
		synctest.Wait()
		_, how = queue.Enter(t.Context(), 3, 1, time.Hour)
		require.Equal(t, flow.QueueFull, how)
		seat.Leave()
		waiting.Wait()
		s := queue.State()
		require.Zero(t, s.Running+s.Waiting+s.RunningSeats+len(s.Queues))
		require.Equal(t, []uint64{3, 1, 0, 1, 1}, s.Ended[:])
	})
}

// An exempt level has seats for all, and a level without seats for nobody.
func TestAPF_05_ExemptAndEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := flow.NewLevel()
		l.Configure(0, true, flow.Queuing{}, time.Now())
		for range 100 {
			enter(t, l, 1, 1)
		}
		_, how := level(0, queues).Enter(t.Context(), 1, 1, time.Second)
		require.Equal(t, flow.TimedOut, how)
		_, how = level(0, flow.Queuing{}).Enter(t.Context(), 1, 1, time.Second)
		require.Equal(t, flow.NoSeat, how)
	})
}

// A flow with few requests does not wait for one with many. Ten flows ask for a seat one request after
// the other, beside one that always has four hundred waiting: each has its even part.
func TestAPF_03_AnElephantDoesNotStarveMice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := level(4, queues)
		var elephant, mice atomic.Int64
		over := time.Now().Add(20 * time.Second)
		ask := func(hash uint64, count *atomic.Int64) {
			for time.Now().Before(over) {
				seat, how := l.Enter(t.Context(), hash, 1, time.Hour)
				if how != flow.Seated {
					time.Sleep(time.Millisecond)
					continue
				}
				time.Sleep(10 * time.Millisecond)
				seat.Leave()
				count.Add(1)
			}
		}
		var all sync.WaitGroup
		for range 400 {
			all.Go(func() { ask(0x9e3779b97f4a7c15, &elephant) })
		}
		for i := range uint64(10) {
			all.Go(func() { ask((i+7)*0xbf58476d1ce4e5b9, &mice) })
		}
		all.Wait()
		require.Greater(t, mice.Load(), elephant.Load()/2, "elephant %d", elephant.Load())
		require.Greater(t, elephant.Load(), int64(500), "no seat is left empty")
	})
}

// Seats that become free together are shared: a queue that has got one has its next turn later.
func TestAPF_03_QueuesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := level(8, flow.Queuing{Queues: 3, Hand: 1, Length: 50})
		var first []flow.Seat
		for range 8 {
			first = append(first, enter(t, l, 0, 1))
		}
		var running [3]atomic.Int64
		var all sync.WaitGroup
		over := make(chan struct{})
		for hash := range uint64(3) {
			for range 20 * int(min(hash, 1)) {
				all.Go(func() {
					seat := enter(t, l, hash, 1)
					running[hash].Add(1)
					<-over
					seat.Leave()
				})
			}
		}
		synctest.Wait()
		for _, s := range first {
			s.Leave()
		}
		synctest.Wait()
		require.EqualValues(t, 4, running[1].Load())
		require.EqualValues(t, 4, running[2].Load())
		close(over)
		all.Wait()
	})
}

// A wide request has its turn, although narrow ones keep coming.
func TestAPF_03_WideRequestsHaveTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := level(4, queues)
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range uint64(8) {
			all.Go(func() {
				for ctx.Err() == nil {
					if seat, how := l.Enter(ctx, i*0xbf58476d1ce4e5b9, 1, time.Hour); how == flow.Seated {
						time.Sleep(10 * time.Millisecond)
						seat.Leave()
					}
				}
			})
		}
		time.Sleep(time.Second)
		seat, how := l.Enter(t.Context(), 99, 4, 5*time.Second)
		require.Equal(t, flow.Seated, how)
		require.Equal(t, 4, l.State().RunningSeats)
		seat.Leave()
		stop()
		all.Wait()
	})
}

// Whatever happens, no more seats are taken than there are, no seat stays empty while a request
// waits, and all counts are zero in the end. Seats and queues change meanwhile.
func TestAPF_03_LevelAgainstItsRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := level(5, queues)
		var all sync.WaitGroup
		var running, most atomic.Int64
		most.Store(5)
		for i := range uint64(200) {
			r := rand.New(rand.NewPCG(i, 1))
			all.Go(func() {
				for range 50 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(200))*time.Millisecond)
					seat, how := l.Enter(ctx, r.Uint64N(40)*0xbf58476d1ce4e5b9, 1+r.IntN(3), time.Duration(r.IntN(100))*time.Millisecond)
					if how == flow.Seated {
						running.Add(1)
						time.Sleep(time.Duration(r.IntN(5)) * time.Millisecond)
						running.Add(-1)
						seat.Leave()
					}
					cancel()
				}
			})
		}
		changes := rand.New(rand.NewPCG(7, 7))
		for range 100 {
			time.Sleep(5 * time.Millisecond)
			if changes.IntN(4) == 0 {
				l.Configure(1+changes.IntN(9), false, flow.Queuing{Queues: 1 + changes.IntN(64), Hand: 1, Length: 1 + changes.IntN(50)}, time.Now())
			}
			synctest.Wait()
			if s := l.State(); s.Waiting > 0 {
				require.Greater(t, s.RunningSeats, s.Seats-3, "%+v", s) // the next one may be as wide as three
			}
		}
		all.Wait()
		s := l.State()
		require.Zero(t, s.Running+s.Waiting+s.RunningSeats+len(s.Queues), "%+v", s)
		require.Zero(t, running.Load())
	})
}

// Demand is a mean over time.
func TestAPF_03_Demand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := level(10, queues)
		l.Demand(time.Now())
		seats := []flow.Seat{enter(t, l, 1, 1), enter(t, l, 1, 1), enter(t, l, 1, 1), enter(t, l, 1, 1)}
		time.Sleep(time.Second)
		for _, s := range seats {
			s.Leave()
		}
		time.Sleep(time.Second)
		average, deviation, highest := l.Demand(time.Now())
		require.InDelta(t, 2, average, 1e-9)
		require.InDelta(t, 2, deviation, 1e-9)
		require.InDelta(t, 4, highest, 1e-9)
		average, _, highest = l.Demand(time.Now().Add(time.Second))
		require.Zero(t, average+highest)
	})
}

// BenchmarkLevel is a request that finds a seat.
func BenchmarkLevel(b *testing.B) {
	l := level(600, queues)
	b.ReportAllocs()
	for b.Loop() {
		s, _ := l.Enter(b.Context(), 12345678901234567, 1, time.Second)
		s.Leave()
	}
}
