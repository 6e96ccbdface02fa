package pause_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/pause"
)

func TestForEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		require.NoError(t, pause.For(t.Context(), time.Minute))
		require.Equal(t, time.Minute, time.Since(start))

		stopped := errors.New("stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(stopped) })
		require.ErrorIs(t, pause.For(ctx, time.Hour), stopped)
		require.Equal(t, time.Minute+time.Second, time.Since(start))
	})
}
