package request

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// contexts are a bounded context and what package context would have made instead; use does something with each first.
func contexts(t *testing.T, use func(context.Context)) (ours *bounded, theirs context.Context, cancelRequest context.CancelCauseFunc) {
	around, cancelRequest := context.WithCancelCause(context.WithValue(t.Context(), "key", "value")) //nolint:staticcheck // any key will do
	theirs, cancel := context.WithTimeout(around, time.Minute)
	t.Cleanup(cancel)
	ours = &bounded{Context: around, at: time.Now().Add(time.Minute)}
	t.Cleanup(ours.End)
	use(ours)
	return ours, theirs, cancelRequest
}

// uses are ways to hold a context before something happens to it: most make the timer, the first does not.
var uses = map[string]func(context.Context){
	"unused": func(context.Context) {},
	"Done":   func(ctx context.Context) { ctx.Done() },
	"Err":    func(ctx context.Context) { _ = ctx.Err() },
}

func requireSame(theirs, ours context.Context, t *testing.T) {
	t.Helper()
	synctest.Wait()
	require.Equal(t, theirs.Err(), ours.Err())
	select {
	case <-theirs.Done():
		synctest.Wait()
		<-ours.Done()
	default:
		select {
		case <-ours.Done():
			require.Fail(t, "done too early")
		default:
		}
	}
	require.Equal(t, theirs.Err(), ours.Err())
	require.Equal(t, context.Cause(theirs), context.Cause(ours))
	require.Equal(t, "value", ours.Value("key"))
	want, _ := theirs.Deadline()
	got, ok := ours.Deadline()
	require.True(t, ok)
	require.Equal(t, want, got)
}

func TestQUERY_22_DeadlineLikeThatOfPackageContext(t *testing.T) {
	for name, use := range uses {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs, _ := contexts(t, use)
				time.Sleep(time.Minute - time.Nanosecond)
				requireSame(theirs, ours, t)
				time.Sleep(time.Nanosecond)
				requireSame(theirs, ours, t)
				time.Sleep(time.Hour)
				requireSame(theirs, ours, t)
			})
			synctest.Test(t, func(t *testing.T) {
				ours, theirs, cancelRequest := contexts(t, use)
				cancelRequest(errors.New("the client has gone"))
				requireSame(theirs, ours, t)
				time.Sleep(time.Hour)
				requireSame(theirs, ours, t)
			})
		})
	}
}

func TestQUERY_22_DeadlineReachesWhatWasMadeOfIt(t *testing.T) {
	for name, use := range uses {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, _, _ := contexts(t, use)
				child, cancel := context.WithCancel(context.WithValue(ours, "other", 1)) //nolint:staticcheck // any key will do
				defer cancel()
				time.Sleep(time.Minute)
				synctest.Wait()
				require.ErrorIs(t, child.Err(), context.DeadlineExceeded)
			})
		})
	}
}

func TestDeadlineOfAHandlerThatReturned(t *testing.T) {
	for name, use := range uses {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, _, _ := contexts(t, use)
				ours.End()
				require.ErrorIs(t, ours.Err(), context.Canceled)
				<-ours.Done()
				require.ErrorIs(t, ours.Err(), context.Canceled)
				time.Sleep(time.Hour)
				require.ErrorIs(t, ours.Err(), context.Canceled)
			})
		})
	}
}

func TestEarlierDeadlineOfTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		around, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ours := &bounded{Context: around, at: time.Now().Add(time.Minute)}
		defer ours.End()
		at, ok := ours.Deadline()
		require.True(t, ok)
		require.Equal(t, time.Now().Add(time.Second), at)
		time.Sleep(time.Second)
		synctest.Wait()
		require.ErrorIs(t, ours.Err(), context.DeadlineExceeded)
	})
}
