package kinds_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/storage/memory"
)

// When a server has ended, no connection to an admission webhook is left open: who starts a webhook before
// the server in a test would find its goroutines.
func TestWHK_12_ConnectionsEndWithTheServer(t *testing.T) {
	var mu sync.Mutex
	open := map[net.Conn]http.ConnState{}
	hook := newHook(t, admits(nil))
	hook.Close() // the same handler, whose connections are watched
	hook.Server = httptest.NewUnstartedServer(hook.Config.Handler)
	hook.Config.ConnState = func(c net.Conn, state http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		if open[c] = state; state == http.StateClosed {
			delete(open, c)
		}
	}
	hook.StartTLS()
	t.Cleanup(hook.Close)
	left := func() int { mu.Lock(); defer mu.Unlock(); return len(open) }

	b := memory.New()
	srv, err := kindwright.New(b, kindwright.Authenticate(byHeader), kindwright.Serve(kinds.ControlPlane(), kinds.Policies(), kinds.Webhooks(kinds.WebhookOptions{}), kinds.ConfigMaps()))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, srv.Start(ctx))
	h := &host{srv, t}
	h.must(201, "POST", mutatingHooksPath, configuration("a", hook.webhook("a.example.com", "")))
	h.must(201, "POST", validatingHooksPath, configuration("b", hook.webhook("b.example.com", "")))
	h.must(201, "POST", configMapsPath, configMap("one", ""))
	require.Len(t, hook.asked(), 2)
	require.Positive(t, left(), "they are kept for the next write")
	cancel()
	srv.Wait()
	require.NoError(t, b.Close())
	require.Eventually(t, func() bool { return left() == 0 }, 10*time.Second, time.Millisecond)
}
