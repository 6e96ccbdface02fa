package connection

import (
	"crypto/tls"
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
		old := t.current.Swap(&http.Transport{
			TLSClientConfig: c, ForceAttemptHTTP2: true, Proxy: through, DisableCompression: true,
			TLSHandshakeTimeout: requestTimeout, IdleConnTimeout: idleTimeout, MaxIdleConnsPerHost: maxIdle, MaxResponseHeaderBytes: maxHeadBytes,
			HTTP2: &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		})
		if old != nil {
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

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.follow != nil {
		t.follow.Look()
	}
	return t.current.Load().RoundTrip(r)
}

// CloseIdleConnections is for http.Client.
func (t *transport) CloseIdleConnections() { t.current.Load().CloseIdleConnections() }
