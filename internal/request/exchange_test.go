package request_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/request"
)

// begun is an exchange within a context.
func begun(ctx context.Context) *request.Exchange {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, W, nil)
	return new(request.Exchange).Begin(r, "id", time.Now())
}

func TestFactsAreSetOnceAndReadByAll(t *testing.T) {
	x := begun(t.Context())
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if info := x.Info.Load(); info != nil {
					_ = info.Verb
				}
				_, _ = authn.UserFrom(x)
				if d := x.Decision.Load(); d != nil {
					_ = d.Reason
				}
				_, _, _ = x.User.Load(), x.Code.Load(), x.Bytes.Load()
				_ = x.Annotations()
			}
		})
	}
	require.NoError(t, x.Parse(request.NewParser("", ""), x.Received))
	require.Same(t, x, request.SetUser(x, authn.User{Name: "alice"}))
	x.SetDecision(authz.Allow, "she may")
	x.Annotate("a", "first")
	x.Code.Store(200)
	x.Bytes.Add(7)

	x.SetDecision(authz.Deny, "no")
	x.Annotate("a", "second")
	other := request.SetUser(x, authn.User{Name: "bob"})
	close(stop)
	readers.Wait()

	require.Equal(t, "list", x.Info.Load().Verb)
	require.Equal(t, &request.Decision{Decision: authz.Allow, Reason: "she may"}, x.Decision.Load())
	require.Equal(t, map[string]string{"a": "first"}, x.Annotations())
	require.EqualValues(t, 200, x.Code.Load())
	require.EqualValues(t, 7, x.Bytes.Load())
	u, _ := authn.UserFrom(x)
	require.Equal(t, "alice", u.Name)
	u, _ = authn.UserFrom(other)
	require.Equal(t, "bob", u.Name, "somebody else is named in a context of its own")
	require.Same(t, x, request.ExchangeFrom(context.WithValue(other, "key", 1))) //nolint:staticcheck // any key will do
}

func TestAContextWithoutARequest(t *testing.T) {
	x := request.ExchangeFrom(t.Context())
	require.Nil(t, x)
	x.Annotate("a", "b")
	require.Nil(t, request.From(t.Context()))
}

func TestTheDeadlineReachesAContextThatWasPutAroundTheExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begun(t.Context())
		around := context.WithValue(x, "key", "value") //nolint:staticcheck // any key will do
		ctx := x.Bound(around, time.Now().Add(time.Minute))
		require.NotEqual(t, around, ctx)
		require.Equal(t, "value", ctx.Value("key"))
		time.Sleep(time.Minute)
		<-ctx.Done()
		require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
		x.Limit.End()
	})
}

func TestTheDeadlineOfAStreamIsLifted(t *testing.T) {
	for _, waits := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			for _, wrapped := range []bool{false, true} {
				x := begun(t.Context())
				x.Streams = true
				var ctx context.Context = x
				if wrapped {
					ctx = context.WithValue(x, "key", "value") //nolint:staticcheck // any key will do
				}
				ctx = x.Bound(ctx, time.Now().Add(time.Minute))
				if waits {
					_ = ctx.Done() // an authenticator did
				}
				x.Limit.Lift()
				time.Sleep(time.Hour)
				require.NoError(t, ctx.Err())
				_, bounded := ctx.Deadline()
				require.False(t, bounded)
				x.Limit.End()
				<-ctx.Done()
				require.ErrorIs(t, ctx.Err(), context.Canceled)
			}
		})
		synctest.Test(t, func(t *testing.T) {
			x := begun(t.Context())
			x.Streams = true
			ctx := x.Bound(x, time.Now().Add(time.Minute))
			if waits {
				_ = ctx.Done()
			}
			time.Sleep(time.Hour) // an authenticator took too long
			x.Limit.Lift()
			<-ctx.Done()
			require.Error(t, ctx.Err())
			x.Limit.End()
		})
	}
}

func TestTheAnswerThatWroteItself(t *testing.T) {
	x := begun(t.Context())
	require.Empty(t, x.Answer())
	x.Document = []byte("a")
	require.Equal(t, "a", string(x.Answer()))
	x.Object = bytes.NewBufferString("b")
	require.Equal(t, "b", string(x.Answer()))
}
