package ctxlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/ctxlock"
)

func TestAWaiterGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m ctxlock.Mutex
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, m.Lock(ended)) // it is free

		begun, enough := time.Now(), errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, enough)
		defer cancel()
		require.ErrorIs(t, m.Lock(ctx), enough)
		require.Equal(t, time.Second, time.Since(begun))

		time.AfterFunc(time.Minute, m.Unlock)
		require.NoError(t, m.Lock(t.Context()))
		require.Equal(t, time.Minute+time.Second, time.Since(begun))
		m.Unlock()
		require.Panics(t, m.Unlock)
	})
}

func TestOneHoldsTheMutex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m ctxlock.Mutex
		inside, most := 0, 0
		for range 100 {
			go func() {
				if m.Lock(t.Context()) != nil {
					return
				}
				defer m.Unlock()
				inside++
				most = max(most, inside)
				time.Sleep(time.Millisecond)
				inside--
			}()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, 1, most)
	})
}
