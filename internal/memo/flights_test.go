package memo_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/memo"
)

func TestThoseWhoAskTheSameShareAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memo.NewFlights[string, int](2)
		release := make(chan struct{})
		var calls atomic.Int32
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				n, err := f.Do(t.Context(), "a", func() (int, error) { calls.Add(1); <-release; return 7, nil })
				require.NoError(t, err)
				require.Equal(t, 7, n)
			})
		}
		all.Go(func() {
			_, err := f.Do(t.Context(), "b", func() (int, error) { <-release; return 0, errors.New("down") })
			require.EqualError(t, err, "down")
		})
		synctest.Wait()
		_, err := f.Do(t.Context(), "c", nil)
		require.ErrorIs(t, err, memo.ErrCrowded)
		impatient, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("gone"))
		_, err = f.Do(impatient, "a", nil)
		require.EqualError(t, err, "gone")
		close(release)
		all.Wait()
		require.Equal(t, int32(1), calls.Load())
	})
}

// The others do not fail because the one who asked for all of them has gone.
func TestSomebodyElseAsksWhenTheFirstGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memo.NewFlights[string, int](1)
		first, cancel := context.WithCancel(t.Context())
		var both sync.WaitGroup
		both.Go(func() {
			_, err := f.Do(first, "a", func() (int, error) { <-first.Done(); return 0, first.Err() })
			require.ErrorIs(t, err, context.Canceled)
		})
		synctest.Wait()
		both.Go(func() {
			n, err := f.Do(t.Context(), "a", func() (int, error) { return 7, nil })
			require.NoError(t, err)
			require.Equal(t, 7, n)
		})
		synctest.Wait()
		cancel()
		both.Wait()
	})
}

func TestAPanicLeavesNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memo.NewFlights[string, int](1)
		release := make(chan struct{})
		var both sync.WaitGroup
		both.Go(func() {
			defer func() { require.Equal(t, "oh", recover()) }()
			_, _ = f.Do(t.Context(), "a", func() (int, error) { <-release; panic("oh") })
		})
		synctest.Wait()
		both.Go(func() {
			_, err := f.Do(t.Context(), "a", nil)
			require.ErrorContains(t, err, "not completed")
		})
		synctest.Wait()
		close(release)
		both.Wait()
		n, err := f.Do(t.Context(), "a", func() (int, error) { return 1, nil })
		require.NoError(t, err)
		require.Equal(t, 1, n)
	})
}
