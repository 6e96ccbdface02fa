package connection

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/internal/files"
)

// requestTimeout bounds one request, beside what the caller's context says.
const requestTimeout = 30 * time.Second

// What is kept of connections that are not in use, and how long the head of an answer may be.
const (
	idleTimeout  = 90 * time.Second
	maxIdle      = 16
	maxHeadBytes = 64 << 10
)

// How soon a stream over a connection that is dead without a sign ends: a server that has sent nothing
// gets a ping, and must answer it.
const (
	pingAfter   = 30 * time.Second
	pingTimeout = 15 * time.Second
)

// noRedirect makes the answer with the redirect the answer.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// transport makes new connections with the certificates of now.
type transport struct {
	follow  *files.Follower // nil if no file is involved
	renew   func() error    // makes new connections from now on
	current atomic.Pointer[http.Transport]
	dial    atomic.Pointer[Dial] // nil: directly
}

// newTransport makes a transport that calls config again when one of the files changes. Without a proxy,
// the environment says through which one it connects.
func newTransport(proxy *url.URL, config func() (*tls.Config, error), failed func(error), names ...string) (*transport, error) {
	t, through := &transport{}, http.ProxyFromEnvironment
	if proxy != nil {
		through = http.ProxyURL(proxy)
	}
	var mu sync.Mutex // a file and a credential plugin may change at once
	read := func() error {
		mu.Lock()
		defer mu.Unlock()
		c, err := config()
		if err != nil {
			return err
		}
		made := &http.Transport{
			TLSClientConfig: c, ForceAttemptHTTP2: true, Proxy: through, DisableCompression: true,
			TLSHandshakeTimeout: requestTimeout, IdleConnTimeout: idleTimeout, MaxIdleConnsPerHost: maxIdle, MaxResponseHeaderBytes: maxHeadBytes,
			HTTP2: &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		}
		if dial := t.dial.Load(); dial != nil {
			made.DialContext = *dial
		}
		if old := t.current.Swap(made); old != nil {
			old.CloseIdleConnections()
		}
		return nil
	}
	t.renew = read
	if len(names) == 0 {
		return t, read()
	}
	var err error
	t.follow, err = files.Follow(read, failed, names...)
	return t, err
}

// Dial connects to an address, "host:port".
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

// Through makes the client of the connection connect with dial from now on: to the server, or to the proxy
// through which the server is reached. With nil it stays as it is. Call it before the first request. A client
// with a transport that is not of this package is an error, since it might connect by itself.
func (c Connection) Through(dial Dial) (Connection, error) {
	if dial == nil {
		return c, nil
	}
	c = c.WithClient()
	switch by := c.Client.Transport.(type) {
	case *transport:
		by.dial.Store(&dial)
		return c, by.renew()
	case *credentialed:
		by.dial.Store(&dial)
		return c, by.renew()
	case nil:
		client := *c.Client
		client.Transport = &http.Transport{
			DialContext: dial, Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: requestTimeout, IdleConnTimeout: idleTimeout, MaxIdleConnsPerHost: maxIdle, MaxResponseHeaderBytes: maxHeadBytes,
		}
		c.Client = &client
		return c, nil
	}
	return c, fmt.Errorf("a client with a transport of the type %T cannot be led through a tunnel", c.Client.Transport)
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.follow != nil {
		t.follow.Look()
	}
	return t.current.Load().RoundTrip(r)
}

// CloseIdleConnections is for http.Client.
func (t *transport) CloseIdleConnections() { t.current.Load().CloseIdleConnections() }
