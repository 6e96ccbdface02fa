package aggregate

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A store that takes long to say where a service listens takes no more of a request's time than the
// request has, also while another one asks.
func TestNobodyWaitsForTheLookupOfOthersBeyondTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e endpoints
		go func() {
			_, _ = e.one(t.Context(), func() ([]string, error) {
				time.Sleep(time.Minute)
				return []string{"a"}, nil
			})
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		_, err := e.one(ctx, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(begun))
		e.forget() // does not wait
		require.Equal(t, time.Second, time.Since(begun))
		at, err := e.one(t.Context(), func() ([]string, error) { return []string{"b"}, nil })
		require.NoError(t, err)
		require.Equal(t, "b", at, "what was found before it was forgotten is looked up again")
	})
}
