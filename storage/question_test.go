package storage_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

func ExampleQuestion() {
	var newest storage.Question[storage.Revision]
	rev, err := newest.Do(context.Background(), func(context.Context) (storage.Revision, error) {
		return 17, nil // a question to a server far away
	})
	fmt.Println(rev, err)
	// Output: 17 <nil>
}

// LIST-27: whoever asks during a call gets the outcome of one that began later.
func TestQuestionsBeginAfterTheirCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s storage.Question[int64]
		var clock, calls, running atomic.Int64
		call := func(context.Context) (int64, error) {
			calls.Add(1)
			require.EqualValues(t, 1, running.Add(1), "one at a time")
			defer running.Add(-1)
			now := clock.Add(1)
			time.Sleep(time.Millisecond)
			return now, nil
		}
		var all sync.WaitGroup
		for i := range 640 {
			all.Go(func() {
				time.Sleep(time.Duration(i/64) * 300 * time.Microsecond)
				before := clock.Load()
				got, err := s.Do(t.Context(), call)
				require.NoError(t, err)
				require.Greater(t, got, before)
			})
		}
		all.Wait()
		require.Less(t, calls.Load(), int64(12), "they share")
	})
}

// Callers who leave, and calls that fail, hold up nobody, and the next caller makes a call.
func TestWhoAsksMayLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s storage.Question[int]
		refused := errors.New("refused")
		dice := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test that can be repeated
		var mu sync.Mutex
		roll := func(n int) int {
			mu.Lock()
			defer mu.Unlock()
			return dice.IntN(n)
		}
		call := func(ctx context.Context) (int, error) {
			select {
			case <-time.After(time.Duration(roll(1000)) * time.Microsecond):
			case <-ctx.Done():
				return 0, ctx.Err()
			}
			if roll(4) == 0 {
				return 0, refused
			}
			return 1, nil
		}
		var all sync.WaitGroup
		for range 32 {
			all.Go(func() {
				for range 100 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(roll(2000))*time.Microsecond)
					_, err := s.Do(ctx, call)
					if ctx.Err() == nil && err != nil {
						require.ErrorIs(t, err, refused, "the end of one request is no answer for another")
					}
					cancel()
				}
			})
		}
		all.Wait()
		for range 3 {
			_, err := s.Do(t.Context(), func(context.Context) (int, error) { return 2, nil })
			require.NoError(t, err)
		}
	})
}

// A caller that panics passes the call on.
func TestAQuestionSurvivesAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s storage.Question[int]
		var all sync.WaitGroup
		first := make(chan struct{})
		all.Go(func() {
			_, _ = s.Do(t.Context(), func(context.Context) (int, error) { <-first; return 0, nil })
		})
		synctest.Wait()
		var calls atomic.Int64
		for range 3 {
			all.Go(func() {
				defer func() { _ = recover() }()
				got, err := s.Do(t.Context(), func(context.Context) (int, error) {
					if calls.Add(1) == 1 {
						panic("planted")
					}
					return 5, nil
				})
				require.NoError(t, err)
				require.Equal(t, 5, got)
			})
		}
		synctest.Wait()
		close(first)
		all.Wait()
		require.EqualValues(t, 2, calls.Load())
	})
}

// BenchmarkQuestion is a question that takes as long as a round trip to a server on the same machine.
func BenchmarkQuestion(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			var s storage.Question[int]
			b.SetParallelism((callers + 1) / 2)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					_, _ = s.Do(context.Background(), func(context.Context) (int, error) {
						time.Sleep(200 * time.Microsecond)
						return 0, nil
					})
				}
			})
		})
	}
}
