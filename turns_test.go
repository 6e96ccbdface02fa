package kindwright

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// sent is the end of a connection that has all its bytes at once.
type sent struct {
	net.Conn
	io.Reader
}

func (s sent) Read(p []byte) (int, error) { return s.Reader.Read(p) }

func TestH1_H2_AConnectionLetsOthersHaveTheirTurn(t *testing.T) {
	for _, c := range []struct{ bytes, piece, turns int }{
		{turnBytes - 1, 512, 0},
		{turnBytes, 512, 1},
		{10 * turnBytes, 512, 10},
		{10 * turnBytes, 4 * turnBytes, 3}, // what one read has brought is there
	} {
		turns := 0
		conn := &fairConn{Conn: sent{Reader: bytes.NewReader(make([]byte, c.bytes))}, yield: func(leaving bool) {
			require.False(t, leaving)
			turns++
		}}
		read, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{conn}, make([]byte, c.piece))
		require.NoError(t, err)
		require.EqualValues(t, c.bytes, read)
		require.Equal(t, c.turns, turns, "%d bytes in pieces of %d", c.bytes, c.piece)
	}
}

// once is a listener with one connection.
type once struct {
	net.Listener
	conn net.Conn
}

func (o *once) Accept() (net.Conn, error) {
	if o.conn == nil {
		return nil, net.ErrClosed
	}
	c := o.conn
	o.conn = nil
	return c, nil
}

func TestH1_AListenerGivesTurns(t *testing.T) {
	server, client := net.Pipe()
	defer client.Close() //nolint:errcheck // nobody reads it
	l := fairListener{&once{conn: server}}
	c, err := l.Accept()
	require.NoError(t, err)
	fair, ok := c.(*fairConn)
	require.True(t, ok)
	require.Same(t, server, fair.Conn)
	_, err = l.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	require.NoError(t, c.Close())
}

// A client that nobody knows is told to end its HTTP/2 connection, and what it still sends is read slowly.
func TestH1_AConnectionThatIsToEndIsReadSlowly(t *testing.T) {
	for _, protocol := range []int{1, 2} {
		var turns []bool
		fair := &fairConn{Conn: sent{Reader: bytes.NewReader(make([]byte, 2*turnBytes))}, yield: func(leaving bool) { turns = append(turns, leaving) }}
		ctx := newLoad(Limits{}).open(t.Context(), tls.Server(fair, &tls.Config{MinVersion: tls.VersionTLS12}))
		room := make([]byte, turnBytes)
		_, err := fair.Read(room)
		require.NoError(t, err)
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/livez", nil)
		r.ProtoMajor = protocol
		closeAfter(w, r)
		_, err = fair.Read(room)
		require.NoError(t, err)
		require.Equal(t, []bool{false, protocol == 2}, turns)
		require.Equal(t, protocol == 2, w.Header().Get("Connection") == "close")
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		yield(false)
		require.Zero(t, time.Since(began))
		yield(true)
		require.Equal(t, leavingRest, time.Since(began))
	})
}

// Streams that were reset on a connection that is to end cost nothing more. All others are served.
func TestH1_ResetStreamsOfAConnectionThatIsToEndAreNotServed(t *testing.T) {
	for _, leaving := range []bool{false, true} {
		for _, reset := range []bool{false, true} {
			l := newLoad(Limits{})
			ctx, cancel := context.WithCancel(l.open(t.Context(), tls.Server(&fairConn{}, &tls.Config{MinVersion: tls.VersionTLS12})))
			defer cancel()
			if leaving {
				leave(ctx)
			}
			if reset {
				cancel()
			}
			served := false
			l.counted(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true })).
				ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/livez", nil))
			require.Equal(t, !leaving || !reset, served, "leaving %v, reset %v", leaving, reset)
		}
	}
}
