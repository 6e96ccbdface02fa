package kindwright_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/storage/memory"
)

// lines is a log in memory.
type lines struct {
	mu sync.Mutex
	to bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(p)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.String()
}

func (l *lines) handler() slog.Handler { return slog.NewTextHandler(l, nil) }

// A server that was given no logger writes where the program's slog writes.
func TestLogsGoToSlogByDefault(t *testing.T) {
	var log lines
	before := slog.Default()
	slog.SetDefault(slog.New(log.handler()))
	t.Cleanup(func() { slog.SetDefault(before) })
	b := memory.New()
	srv, err := kindwright.New(b, kindwright.Serve(kinds.ControlPlane()))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() { stop(); srv.Wait(); require.NoError(t, b.Close()) })
	require.NoError(t, srv.Start(ctx))
	require.Contains(t, log.text(), "no authorizer was given, so only members of system:masters have access")

	for range 3 {
		w := httptest.NewRecorder()
		srv.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/api/v1/namespaces", nil))
		require.Equal(t, 403, w.Code)
		require.NotContains(t, w.Body.String(), "authorizer", "clients need not know")
	}
	told := "a request was rejected because no authorizer was given to New"
	require.Equal(t, 1, strings.Count(log.text(), told), log.text())
	require.Contains(t, log.text(), "user=system:anonymous verb=list path=/api/v1/namespaces")
}

// An authorizer that allows nothing is a decision, which the log need not question.
func TestTheLogDoesNotWarnOfAnAuthorizer(t *testing.T) {
	var log lines
	h := run(t, kindwright.LogTo(logr.FromSlogHandler(log.handler())), kindwright.Authorize(authz.Func(
		func(context.Context, authz.Attributes) (authz.Decision, string, error) {
			return authz.NoOpinion, "", nil
		})))
	require.Equal(t, 403, h.request("GET", "/api/v1/namespaces", "", "X-User", "ann", "X-Groups", "").StatusCode)
	require.NotContains(t, log.text(), "authorizer")
}

// Run says where it serves, and a clean end is not an error.
func TestRunLogsWhereItServesAndEndsWithoutErrors(t *testing.T) {
	var log lines
	r := startRun(t, []kindwright.Option{kindwright.LogTo(logr.FromSlogHandler(log.handler()))}, kindwright.Listen("127.0.0.1:0"))
	require.Contains(t, log.text(), `level=INFO msg=serving address=https://`+r.addr)
	r.stop()
	require.NoError(t, <-r.done)
	require.NotContains(t, log.text(), "level=ERROR")
}
