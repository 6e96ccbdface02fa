package proof_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/proof"
)

// prover counts how often it is asked.
type prover struct {
	calls atomic.Int64
	life  time.Duration
}

func (p *prover) prove(context.Context) (string, time.Time, error) {
	return fmt.Sprint("proof ", p.calls.Add(1)), time.Now().Add(p.life), nil
}

func TestAProofIsRememberedUntilItExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := proof.New[string](10), &prover{life: time.Minute}
		get := func(token string, by any) string {
			got, err := c.Get(t.Context(), token, by, p.prove)
			require.NoError(t, err)
			return got
		}
		require.Equal(t, "proof 1", get("a", 1))
		require.Equal(t, "proof 1", get("a", 1))
		require.Equal(t, "proof 2", get("b", 1))
		require.Equal(t, "proof 3", get("a", 2), "verified with something else")
		time.Sleep(59 * time.Second)
		require.Equal(t, "proof 3", get("a", 2))
		time.Sleep(time.Second)
		require.Equal(t, "proof 4", get("a", 2))
	})
}

func TestACacheIsBounded(t *testing.T) {
	c, p := proof.New[string](100), &prover{life: time.Hour}
	for i := range 1000 {
		_, err := c.Get(t.Context(), fmt.Sprint(i), 1, p.prove)
		require.NoError(t, err)
		_, err = c.Get(t.Context(), "used", 1, p.prove)
		require.NoError(t, err)
	}
	require.EqualValues(t, 1001, p.calls.Load(), "what is used stays")
	for i := range 900 {
		_, err := c.Get(t.Context(), fmt.Sprint(i), 1, p.prove)
		require.NoError(t, err)
	}
	require.EqualValues(t, 1901, p.calls.Load(), "what is not used leaves")
}

// S1: long tokens take the place of several. Whoever may ask for tokens could fill gigabytes with those that
// are meant for thousands of audiences.
func TestS1_LongTokensTakeMoreRoom(t *testing.T) {
	c, p := proof.New[string](1000), &prover{life: time.Hour}
	get := func(i int) {
		_, err := c.Get(t.Context(), fmt.Sprint(i)+strings.Repeat("x", 64<<10), 1, p.prove)
		require.NoError(t, err)
	}
	for i := range 100 {
		get(i)
		get(0)
	}
	require.EqualValues(t, 100, p.calls.Load(), "what is used stays")
	for i := range 50 {
		get(1 + i)
	}
	require.EqualValues(t, 150, p.calls.Load(), "what is not used leaves")
	for i := range 400 {
		_, err := c.Get(t.Context(), fmt.Sprint("short", i), 1, p.prove)
		require.NoError(t, err)
	}
	for i := range 400 {
		_, err := c.Get(t.Context(), fmt.Sprint("short", i), 1, p.prove)
		require.NoError(t, err)
	}
	require.EqualValues(t, 550, p.calls.Load(), "short ones have as much room as before")
}

func TestAFailureIsNotRemembered(t *testing.T) {
	c, p := proof.New[string](10), &prover{life: time.Hour}
	bad := errors.New("bad")
	_, err := c.Get(t.Context(), "a", 1, func(context.Context) (string, time.Time, error) { return "", time.Time{}, bad })
	require.ErrorIs(t, err, bad)
	require.Panics(t, func() {
		_, _ = c.Get(t.Context(), "a", 1, func(context.Context) (string, time.Time, error) { panic("on purpose") })
	})
	got, err := c.Get(t.Context(), "a", 1, p.prove)
	require.NoError(t, err)
	require.Equal(t, "proof 1", got)
}

func TestRequestsWithOneTokenWaitForOneVerification(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := proof.New[string](10), &prover{life: time.Hour}
		first, cancel := context.WithCancel(t.Context())
		slow := func(ctx context.Context) (string, time.Time, error) {
			select {
			case <-time.After(time.Second):
				return p.prove(ctx)
			case <-ctx.Done():
				return "", time.Time{}, ctx.Err()
			}
		}
		var all sync.WaitGroup
		all.Go(func() {
			_, err := c.Get(first, "a", 1, slow)
			require.ErrorIs(t, err, context.Canceled)
		})
		synctest.Wait()
		for range 100 {
			all.Go(func() {
				got, err := c.Get(t.Context(), "a", 1, slow)
				require.NoError(t, err)
				require.Equal(t, "proof 1", got)
			})
		}
		gone, leave := context.WithCancel(t.Context())
		all.Go(func() {
			_, err := c.Get(gone, "a", 1, slow)
			require.ErrorIs(t, err, context.Canceled)
		})
		synctest.Wait()
		leave()
		cancel() // the others go on without the first
		all.Wait()
		require.EqualValues(t, 1, p.calls.Load())
	})
}

func BenchmarkGet(b *testing.B) {
	c, p := proof.New[string](10), &prover{life: time.Hour}
	token := string(make([]byte, 1000))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Get(b.Context(), token, 1, p.prove); err != nil {
			b.Fatal(err)
		}
	}
}
