package flow_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/flow"
)

const mib = 1 << 20

// decodes asks for a turn in a goroutine of its own.
func decodes(t *testing.T, h *flow.Hold, size int64) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- h.Decode(t.Context(), size) }()
	synctest.Wait()
	return done
}

// A small body does not wait for large ones, and the reverse.
func TestS1_SmallBodiesDoNotWaitForLargeOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := flow.NewBodies(mib, 30*mib)
		large, next, small := b.For("a"), b.For("a"), b.For("b")
		require.NoError(t, large.Decode(t.Context(), 3*mib))
		waits := decodes(t, &next, 3*mib)
		require.Empty(t, waits)
		require.NoError(t, small.Decode(t.Context(), 100<<10))
		small.Release()
		require.Empty(t, waits)
		large.Release()
		synctest.Wait()
		require.NoError(t, <-waits)
		next.Release()
	})
}

// A body that there is room for waits all the same if another one came before it: those that need
// more would never get their turn otherwise.
func TestS1_BodiesHaveTheirTurnInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := flow.NewBodies(mib, 30*mib) // 10 MiB of it for small bodies, which need ten times their size
		var holds [4]flow.Hold
		for i, size := range [...]int64{256 << 10, 256 << 10, 256 << 10, 200 << 10} {
			holds[i] = b.For("a")
			require.NoError(t, holds[i].Decode(t.Context(), size))
		}
		first, second := b.For("b"), b.For("c")
		needs := decodes(t, &first, 100<<10)
		fits := decodes(t, &second, 40<<10)
		require.Empty(t, needs)
		require.Empty(t, fits)
		holds[3].Release()
		synctest.Wait()
		require.NoError(t, <-needs)
		require.NoError(t, <-fits)
		for _, h := range []*flow.Hold{&holds[0], &holds[1], &holds[2], &first, &second} {
			h.Release()
		}
	})
}

// Large bodies leave a processor to others, but not for longer than decoding can take. An answer ends
// the turn: its client may read it as slowly as it likes.
func TestS1_LargeBodiesLeaveAProcessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := flow.NewBodies(mib, 1<<40)
		holds := make([]flow.Hold, max(1, runtime.GOMAXPROCS(0)-1))
		for i := range holds {
			holds[i] = b.For("a")
			require.NoError(t, holds[i].Decode(t.Context(), mib))
		}
		second, third := b.For("a"), b.For("b")
		waits := decodes(t, &second, mib)
		require.Empty(t, waits)
		holds[0].Decoded()
		synctest.Wait()
		require.NoError(t, <-waits)
		waits = decodes(t, &third, mib)
		require.Empty(t, waits)
		time.Sleep(time.Second)
		synctest.Wait()
		require.NoError(t, <-waits, "the others wait for something else")
		holds[0].Release()
		second.Release()
		third.Release()
		for i := range holds {
			holds[i].Release()
		}
		last := b.For("c")
		require.NoError(t, last.Decode(t.Context(), mib), "a turn gives its seat back once")
		full := b.For("d")
		if len(holds) == 1 {
			require.Empty(t, decodes(t, &full, mib))
		}
		last.Release()
		synctest.Wait()
		full.Release()
	})
}

// Whoever finds no room waits a little, and those who leave let them in, in order.
func TestS1_LimiterLetsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var limits flow.Limits
		limits.Total[flow.Writing], limits.PerUser[flow.Writing] = 2, 1
		l := flow.NewLimiter(limits)
		waits := func(ctx context.Context, user string) <-chan bool {
			done := make(chan bool, 1)
			go func() { done <- l.Wait(ctx, flow.Writing, user, false, time.Second) }()
			synctest.Wait()
			return done
		}
		require.True(t, <-waits(t.Context(), "a"))
		again := waits(t.Context(), "a")
		require.Empty(t, again, "the user has its part")
		require.True(t, <-waits(t.Context(), "b"), "others do not wait for it")
		ended, cancel := context.WithCancel(t.Context())
		gone, c := waits(ended, "c"), waits(t.Context(), "c")
		cancel()
		require.False(t, <-gone)
		l.Leave(flow.Writing, "b")
		synctest.Wait()
		require.True(t, <-c, "the first who may")
		require.Empty(t, again)
		time.Sleep(time.Second)
		require.False(t, <-again)
		require.True(t, l.Wait(t.Context(), flow.Writing, "admin", true, 0))
		l.Leave(flow.Writing, "admin")
		l.Leave(flow.Writing, "a")
		l.Leave(flow.Writing, "c")
		require.True(t, l.Enter(flow.Writing, "a", false))
	})
}

// A user cannot fill the queue.
func TestS1_TheQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var limits flow.Limits
		limits.Total[flow.Reading] = 1
		l := flow.NewLimiter(limits)
		require.True(t, l.Enter(flow.Reading, "a", false))
		refused := make(chan bool, 500)
		for range cap(refused) {
			go func() { refused <- l.Wait(t.Context(), flow.Reading, "a", false, time.Second) }()
		}
		synctest.Wait()
		require.Len(t, refused, 100, "they are refused at once")
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, refused, 500)
	})
}

func TestS1_LingeringIsBounded(t *testing.T) {
	b := flow.NewBodies(mib, mib)
	h := b.For("a")
	var done []func()
	for range 8 {
		end, ok := h.Linger()
		require.True(t, ok)
		done = append(done, end)
	}
	_, ok := h.Linger()
	require.False(t, ok)
	done[0]()
	_, ok = h.Linger()
	require.True(t, ok)
	var unbounded flow.Hold
	end, ok := unbounded.Linger()
	require.True(t, ok)
	end()
}
