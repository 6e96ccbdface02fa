package batch_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/batch"
)

// taker remembers batches and when they came.
type taker struct {
	begin time.Time

	mu    sync.Mutex
	taken taken
}

// taken is what a taker remembers.
type taken struct {
	sizes []int
	at    []time.Duration
	lost  int
}

// now returns what the taker remembers by now.
func (t *taker) now() taken {
	t.mu.Lock()
	defer t.mu.Unlock()
	return taken{slices.Clone(t.taken.sizes), slices.Clone(t.taken.at), t.taken.lost}
}

func (t *taker) take(_ context.Context, records [][]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken.sizes, t.taken.at = append(t.taken.sizes, len(records)), append(t.taken.at, time.Since(t.begin))
}

func (t *taker) lose(n int) { t.mu.Lock(); defer t.mu.Unlock(); t.taken.lost += n }

func fill(q *batch.Queue, n int) {
	for i := range n {
		q.Add(fmt.Appendf(nil, "record %04d", i))
	}
}

func TestAUD_24_25_ABatchIsFullOrOldEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := &taker{begin: time.Now()}
		q := batch.New(batch.Options{MaxSize: 4, MaxWait: 30 * time.Second}, got.take, got.lose)
		fill(q, 10)
		synctest.Wait()
		require.Equal(t, []int{4, 4}, got.now().sizes, "the rest waits for others")
		time.Sleep(30 * time.Second)
		synctest.Wait()
		require.Equal(t, []int{4, 4, 2}, got.now().sizes)
		require.Equal(t, 30*time.Second, got.now().at[2])
		fill(q, 1)
		q.Close()
		require.Equal(t, []int{4, 4, 2, 1}, got.now().sizes, "nothing is left behind")
		require.Equal(t, 30*time.Second, got.now().at[3], "and the end does not wait")
		require.Zero(t, got.now().lost)
	})
}

func TestAUD_23_WhatHasNoRoomIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := &taker{begin: time.Now()}
		q := batch.New(batch.Options{Buffer: 5, MaxSize: 2}, func(ctx context.Context, records [][]byte) {
			got.take(ctx, records)
			<-ctx.Done() // hangs until it must not
		}, got.lose)
		fill(q, 2)
		synctest.Wait()
		fill(q, 20)
		require.Equal(t, 15, got.now().lost, "two are under way, five wait")
		q.Close()
		q.Close()
		require.Equal(t, []int{2, 2, 2, 1}, got.now().sizes)
		require.Equal(t, 10*time.Second, got.now().at[1], "a hanging delivery is given ten seconds")
		fill(q, 1)
		require.Equal(t, 16, got.now().lost)
	})
}

// D5: a back end that hangs costs a bounded amount of memory, however long the records are.
func TestAUD_23_WhatWaitsHasABoundInBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs, lost := make(chan struct{}), 0
		q := batch.New(batch.Options{MaxHeld: 1000, MaxSize: 1}, func(context.Context, [][]byte) { <-hangs }, func(n int) { lost += n })
		for range 5 {
			q.Add(make([]byte, 300))
			synctest.Wait()
		}
		require.Equal(t, 2, lost, "one is delivered, and two wait")
		q.Add(make([]byte, 100))
		require.Equal(t, 2, lost, "a short one has room")
		close(hangs)
		synctest.Wait()
		q.Add(make([]byte, 5000))
		require.Equal(t, 2, lost, "what was delivered has left its room; one record alone may have any length")
		synctest.Wait()
		q.Add(make([]byte, 1000))
		q.Close()
		require.Equal(t, 2, lost)
	})
}

func TestAUD_26_DeliveriesAreThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := &taker{begin: time.Now()}
		q := batch.New(batch.Options{MaxSize: 1, Throttle: true, QPS: 10, Burst: 3}, got.take, got.lose)
		fill(q, 5)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []time.Duration{0, 0, 0, 100 * time.Millisecond, 200 * time.Millisecond}, got.now().at)
		q.Close()
	})
}

func TestABatchHasFewBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := &taker{begin: time.Now()}
		q := batch.New(batch.Options{MaxBytes: 25, MaxWait: time.Second}, got.take, got.lose)
		fill(q, 5) // of 11 bytes each
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, []int{2, 2, 1}, got.now().sizes)
		q.Close()
	})
}

// Batches are delivered at the same time, up to a number of them. One that hangs holds up no other.
func TestSomeBatchesAreDeliveredAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs, got := make(chan struct{}), &taker{begin: time.Now()}
		q := batch.New(batch.Options{Buffer: 5, MaxSize: 1, Parallel: 3}, func(ctx context.Context, records [][]byte) {
			if string(records[0]) != "short" {
				<-hangs
			}
			got.take(ctx, records)
		}, got.lose)
		fill(q, 2)
		synctest.Wait()
		for range 4 {
			q.Add([]byte("short"))
			synctest.Wait()
		}
		require.Len(t, got.now().sizes, 4, "two hang, and the third place is free")
		fill(q, 1)
		synctest.Wait()
		fill(q, 20)
		require.Equal(t, 15, got.now().lost, "all places are taken, and five wait")
		close(hangs)
		q.Close()
		require.Len(t, got.now().sizes, 4+3+5, "Close waits for all of them")
	})
}
