package kindwright_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authz"
)

// line is one network connection to a server.
type line struct {
	net.Conn
	in *bufio.Reader
}

func (r *runner) connect(t *testing.T) *line {
	t.Helper()
	conn, err := tls.Dial("tcp", r.addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() }) // it may be closed already
	return &line{conn, bufio.NewReader(conn)}
}

// ask sends a request of a user and returns the answer, whose body it has read.
func (l *line) ask(t *testing.T, user, groups string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://localhost"+gadgetPath, nil)
	require.NoError(t, err)
	r.Header.Set("X-User", user)
	r.Header.Set("X-Groups", groups)
	require.NoError(t, r.Write(l))
	answer, err := http.ReadResponse(l.in, r)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer
}

// S6: a user has so many connections, each of which belongs to the first who asks on it.
func TestS6_ConnectionsPerUser(t *testing.T) {
	r := startRun(t, []kindwright.Option{
		kindwright.Authorize(authz.AlwaysAllow()), kindwright.Limits{ConnectionsPerUser: 2},
	}, kindwright.Listen("127.0.0.1:0"))
	first, second := r.connect(t), r.connect(t)
	require.Equal(t, 200, first.ask(t, "alice", "").StatusCode)
	require.Equal(t, 200, second.ask(t, "alice", "").StatusCode)
	require.Equal(t, 200, first.ask(t, "alice", "").StatusCode, "a connection counts once")

	third := r.connect(t)
	refused := third.ask(t, "alice", "")
	require.Equal(t, 429, refused.StatusCode)
	require.Equal(t, "1", refused.Header.Get("Retry-After"))
	require.True(t, refused.Close, "clients must not keep the connection")
	_, err := third.in.ReadByte()
	require.ErrorIs(t, err, io.EOF, "the server closes it")

	require.Equal(t, 200, r.connect(t).ask(t, "bob", "").StatusCode, "others have their own")
	require.Equal(t, 200, first.ask(t, "bob", "").StatusCode, "it is alice's, whoever else asks on it")
	for range 3 {
		require.Equal(t, 200, r.connect(t).ask(t, "root", "system:masters").StatusCode, "these are not refused")
	}

	require.NoError(t, second.Close())
	require.Eventually(t, func() bool { // the server learns about it by itself
		return r.connect(t).ask(t, "alice", "").StatusCode == 200
	}, time.Minute, time.Millisecond)
	require.Equal(t, 429, r.connect(t).ask(t, "alice", "").StatusCode, "one has left, and one has come")
	r.stop()
	require.NoError(t, <-r.done)
}
