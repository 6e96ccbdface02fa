package kindwright_test

import (
	"bytes"
	"crypto/tls"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
)

// A client that reads nothing leaves a connection that cannot be written. A request that is broken
// off then has no handler any more, and its stream is open until the write in front of it gives up.
func TestOPS_02_AConnectionWithoutHandlersDoesNotHoldTheEnd(t *testing.T) {
	var now, broken atomic.Int64
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now.Add(1)
		defer now.Add(-1)
		if r.Header.Get("X-Break") != "" {
			broken.Add(1)
			panic(http.ErrAbortHandler)
		}
		for chunk := make([]byte, 64<<10); ; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	r := startRun(t, []kindwright.Option{kindwright.HTTP{Fallback: h}}, kindwright.Listen("127.0.0.1:0"))
	user := []string{"x-user", "admin", "x-groups", "system:masters"}
	c := r.unread(t)
	_, err := c.Write(frame(frameHeaders, endHeaders|endStream, 1, get2("/apis/elsewhere.dev/v1/things", user...)))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return now.Load() == 1 }, 5*time.Second, time.Millisecond)
	time.Sleep(500 * time.Millisecond) // the buffers of the system are full
	_, err = c.Write(bytes.Join([][]byte{
		frame(frameReset, 0, 1, []byte{0, 0, 0, 8}),
		frame(frameHeaders, endHeaders|endStream, 3, get2("/apis/elsewhere.dev/v1/things", append(user, "x-break", "1")...)),
	}, nil))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return broken.Load() == 1 && now.Load() == 0 }, 5*time.Second, time.Millisecond)
	r.server.AwaitReconnects(time.Millisecond)
	begun := time.Now()
	r.stop()
	require.NoError(t, <-r.done)
	require.Less(t, time.Since(begun), 18*time.Second) // it was 20 s and more
}

// unread begins HTTP/2 on a connection whose client gives the server room for any answer and reads
// nothing.
func (r *runner) unread(t *testing.T) net.Conn {
	t.Helper()
	raw, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = raw.Close() })
	require.NoError(t, raw.(*net.TCPConn).SetReadBuffer(4<<10))
	c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	_, err = c.Write(bytes.Join([][]byte{
		[]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
		frame(frameSettings, 0, 0, []byte{0, 4, 0x7f, 0xff, 0xff, 0xff}),
		frame(frameWindow, 0, 0, []byte{0x7f, 0xfe, 0, 0}),
	}, nil))
	require.NoError(t, err)
	return c
}
