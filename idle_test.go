package kindwright

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMemoryIsFreedWhenIdle(t *testing.T) {
	const mebibyte = 1 << 20
	type second struct {
		allocates uint64 // MiB
		freed     bool
	}
	for name, c := range map[string]struct {
		live, spare uint64 // MiB
		seconds     []second
	}{
		"once after a load":             {100, 90, []second{{50, false}, {50, false}, {0, true}, {0, false}, {0, false}}},
		"again after some more":         {100, 90, []second{{50, false}, {0, true}, {6, false}, {0, false}, {3, false}, {0, true}}},
		"not for little":                {100, 6, []second{{50, false}, {0, false}}},
		"not for little, of a small":    {1, 3, []second{{50, false}, {0, false}}},
		"not beside steady work":        {100, 90, []second{{2, false}, {2, false}, {2, false}, {2, false}, {2, false}}},
		"of a small one, if that is it": {1, 4, []second{{50, false}, {0, true}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var allocated atomic.Uint64
				freed := 0
				i := &idler{free: func() { freed++ }, usage: func() usage {
					return usage{allocated: allocated.Load(), live: c.live * mebibyte, spare: c.spare * mebibyte}
				}}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { i.run(ctx); close(ended) }()
				synctest.Wait()
				for n, s := range c.seconds {
					before := freed
					allocated.Add(s.allocates * mebibyte)
					time.Sleep(time.Second)
					synctest.Wait()
					require.Equal(t, s.freed, freed > before, "second %d", n)
				}
				stop()
				<-ended
			})
		})
	}
}

func TestMemoryOfThisProcess(t *testing.T) {
	i := newIdler()
	before := i.usage()
	kept := make([]byte, 32<<20)
	require.GreaterOrEqual(t, i.usage().allocated-before.allocated, uint64(len(kept)))
	i.free()
	require.GreaterOrEqual(t, i.usage().live, uint64(len(kept)))
	runtime.KeepAlive(kept)
}
