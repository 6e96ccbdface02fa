package rest

import (
	"bytes"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/registry/connect"
	"github.com/kindwright/kindwright/status"
)

// asksWebSocket reports whether the client wants a watch as messages of a WebSocket and may have it.
func (c *call) asksWebSocket() bool {
	return c.opts.WebSockets && request.AsksUpgrade(c.r) && request.HasToken(c.r.Header["Upgrade"], "websocket")
}

// overWebSocket serves a watch with one text message per event (WATCH-32). follow writes the ordinary stream.
func (c *call) overWebSocket(follow func() error) error {
	if !c.connected.enter(c.opts.Draining) {
		return c.refuseConnection(status.ServiceUnavailable("the server is about to stop").WithRetryAfter(1))
	}
	defer c.connected.leave()
	ctx, release := c.untilDraining()
	defer release()
	w := &line{ResponseWriter: c.w, late: &writeLimit{connection: http.NewResponseController(c.w), after: c.opts.WatchWrite}}
	return c.serveLine(ctx, w, func(http.ResponseWriter, *http.Request) error {
		// The context of the stream ends with the client, whom net/http no longer observes.
		reading, gone := context.WithCancel(c.r.Context())
		defer gone()
		m := &socketWriter{line: w, request: c.r, gone: gone, header: http.Header{}}
		c.w, c.r = m, c.r.WithContext(reading)
		defer m.close()
		if err := follow(); err != nil {
			return err
		}
		return m.refused
	})
}

// socketWriter is the writer of a stream of lines that leave as messages of a WebSocket. The stream's goroutine owns it.
type socketWriter struct {
	line    *line
	request *http.Request
	gone    context.CancelFunc

	header  http.Header // of an answer that is not sent
	socket  *connect.WebSocket
	refused error // why there is no socket
	rest    []byte
	reading sync.WaitGroup
}

// Header returns the header of the ordinary stream, which nobody sees.
func (m *socketWriter) Header() http.Header { return m.header }

// WriteHeader accepts the WebSocket.
func (m *socketWriter) WriteHeader(int) {
	if m.socket, m.refused = connect.AcceptWebSocket(m.line, m.request); m.refused != nil {
		return
	}
	m.reading.Go(func() {
		defer m.gone()
		for { // a client has nothing to say, but it may leave
			if _, _, err := m.socket.Read(); err != nil {
				return
			}
		}
	})
}

// Write sends the lines that are complete.
func (m *socketWriter) Write(p []byte) (int, error) {
	if m.socket == nil {
		return 0, http.ErrNotSupported
	}
	m.rest = append(m.rest, p...)
	todo := m.rest
	for {
		event, rest, whole := bytes.Cut(todo, []byte{'\n'})
		if !whole {
			m.rest = append(m.rest[:0], todo...)
			return len(p), nil
		}
		if err := m.socket.Write(connect.TextMessage, event); err != nil {
			return 0, err
		}
		todo = rest
	}
}

// FlushError reports why the WebSocket was not accepted. Each message leaves when it is written.
func (m *socketWriter) FlushError() error { return m.refused }

// SetReadDeadline and SetWriteDeadline do nothing: the WebSocket bounds each of its messages.
func (*socketWriter) SetReadDeadline(time.Time) error  { return nil }
func (*socketWriter) SetWriteDeadline(time.Time) error { return nil }

// close ends the WebSocket in order. The client has a moment to answer.
func (m *socketWriter) close() {
	if m.socket == nil {
		return
	}
	_ = m.socket.Close(connect.CloseNormal, "")
	late := time.AfterFunc(lastWords, func() { m.line.hangUp() })
	defer late.Stop()
	m.reading.Wait()
}
