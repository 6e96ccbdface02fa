package flow_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/flow"
)

func TestS1_Limiter(t *testing.T) {
	var limits flow.Limits
	limits.Total[flow.Writing], limits.PerUser[flow.Writing] = 3, 2
	l := flow.NewLimiter(limits)
	require.True(t, l.Enter(flow.Writing, "a", false))
	require.True(t, l.Enter(flow.Writing, "a", false))
	require.False(t, l.Enter(flow.Writing, "a", false), "the user has its part")
	require.True(t, l.Enter(flow.Reading, "a", false), "another class, which has no limit")
	require.True(t, l.Enter(flow.Writing, "b", false))
	require.False(t, l.Enter(flow.Writing, "b", false), "the server is full")
	require.True(t, l.Enter(flow.Writing, "b", true))
	l.Leave(flow.Writing, "b")
	l.Leave(flow.Writing, "a")
	require.True(t, l.Enter(flow.Writing, "c", false))
}

// Those who wait get room in order, each when there is enough, and nobody stands in the way of smaller ones.
func TestS1_RoomForBodiesIsGivenInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mib = 1 << 20
		b := flow.NewBodies(4*mib, mib)
		var holds [5]flow.Hold
		for i := range holds {
			holds[i] = b.For(strconv.Itoa(i))
		}
		require.True(t, holds[0].Grow(t.Context(), 2*mib+flow.Free))
		require.True(t, holds[1].Grow(t.Context(), 2*mib+flow.Free))
		var mu sync.Mutex
		got := map[int]bool{}
		for i, size := range map[int]int64{2: 2 * mib, 3: mib, 4: mib} {
			time.Sleep(time.Millisecond)
			go func() {
				time.Sleep(time.Duration(i) * 10 * time.Millisecond)
				ok := holds[i].Grow(t.Context(), size+flow.Free)
				mu.Lock()
				defer mu.Unlock()
				got[i] = ok
			}()
		}
		time.Sleep(100 * time.Millisecond)
		require.Empty(t, got)
		holds[0].Release()
		synctest.Wait()
		require.Equal(t, map[int]bool{2: true}, got, "the first takes all that there is")
		holds[1].Release()
		synctest.Wait()
		require.Equal(t, map[int]bool{2: true, 3: true, 4: true}, got)
		late := b.For("late")
		require.False(t, late.Grow(t.Context(), 1+flow.Free), "after two seconds")
		for i := range holds {
			holds[i].Release()
		}
		require.True(t, late.Grow(t.Context(), 2*mib+flow.Free), "nothing is kept for those who have gone")
		late.Release()
	})
}

func TestS1_BodiesThatArrive(t *testing.T) { synctest.Test(t, bodiesThatArrive) }

func bodiesThatArrive(t *testing.T) {
	const mib = 1 << 20
	b := flow.NewBodies(4*mib, 10*mib)
	one, two, other := b.For("a"), b.For("a"), b.For("b")
	require.True(t, one.Grow(t.Context(), mib+flow.Free))
	require.True(t, two.Grow(t.Context(), flow.Free), "small bodies are not counted")
	require.True(t, two.Grow(t.Context(), mib+flow.Free))
	require.False(t, two.Grow(t.Context(), mib+flow.Free+1), "half of all is for others")
	require.True(t, other.Grow(t.Context(), 2*mib+flow.Free))
	late := b.For("c")
	waits := make(chan bool, 1)
	go func() { waits <- late.Grow(t.Context(), flow.Free+1) }()
	synctest.Wait()
	require.Empty(t, waits)
	one.Release()
	require.True(t, <-waits)
	late.Release()
	require.True(t, two.Grow(t.Context(), 2*mib+flow.Free))
	two.Release()
	other.Release()
	var unbounded flow.Hold
	require.True(t, unbounded.Grow(t.Context(), 1<<40))
	unbounded.Release()
}

func TestS1_BodiesWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mib = 1 << 20
		b := flow.NewBodies(mib, 10*mib)
		first, second, third, last := b.For("a"), b.For("b"), b.For("c"), b.For("d")
		require.NoError(t, first.Decode(t.Context(), mib))
		ended, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() { gone <- second.Decode(ended, mib) }()
		synctest.Wait()
		done := make(chan error, 1)
		go func() { done <- third.Decode(t.Context(), mib) }()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-gone, context.Canceled)
		synctest.Wait()
		require.Empty(t, done)
		first.Release()
		require.NoError(t, <-done)
		third.Release()
		second.Release()
		require.NoError(t, last.Decode(t.Context(), 100*mib), "no body is too large to have a turn")
		last.Release()
	})
}
