package kindwright

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"github.com/kindwright/kindwright/internal/pause"
)

// The times of connections without a request, while the server stops.
const (
	unansweredTimeout = 5 * time.Second // for the end of the last answer to leave
	unansweredLook    = 250 * time.Millisecond
)

// counted counts the requests that a handler serves on each connection. A connection that was told to end may bring
// hundreds of streams that its client has reset, each of which would pass the whole chain for nobody (H1). They end
// here, as those do that net/http does not begin any more.
func (l *load) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connectionKey{}).(*connection); ok {
			if c.fair != nil && c.fair.leaving.Load() && r.Context().Err() != nil {
				return
			}
			c.begin()
			defer c.end()
		}
		next.ServeHTTP(w, r)
	})
}

func (c *connection) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
}

func (c *connection) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests--
	c.since = time.Now()
}

// without reports whether no request has been served since a moment.
func (c *connection) without(moment time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests == 0 && c.since.Before(moment)
}

// closeUnanswered closes the connections on which nothing is served any more, until ctx ends. The
// server of net/http closes those that are idle. It counts others as active: an HTTP/2 stream that
// was broken off is open until its reset is written, and a client that reads nothing keeps that
// from happening for writeByteAfter and longer.
func (l *load) closeUnanswered(ctx context.Context) {
	begun := time.Now()
	for pause.For(ctx, unansweredLook) == nil {
		moment := time.Now().Add(-unansweredTimeout)
		if moment.Before(begun) {
			continue // what came last may still be about to begin
		}
		for _, conn := range l.unanswered(moment) {
			_ = conn.Close()
		}
	}
}

func (l *load) unanswered(since time.Time) (out []net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn, c := range l.connections {
		if !c.without(since) {
			continue
		}
		if t, ok := conn.(*tls.Conn); ok {
			conn = t.NetConn() // the message of TLS that says goodbye would wait, too
		}
		out = append(out, conn)
	}
	return out
}
