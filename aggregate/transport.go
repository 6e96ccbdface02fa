package aggregate

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/egress"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/internal/webhook"
	"github.com/kindwright/kindwright/tracing"
)

// What a connection to a back end may take.
const (
	dialTimeout    = 5 * time.Second
	idleTimeout    = 90 * time.Second
	lateEnd        = time.Second
	maxIdle        = 32
	maxHeaderBytes = 64 << 10
	pingAfter      = 30 * time.Second
	pingTimeout    = 15 * time.Second
	writeTimeout   = 30 * time.Second
	streamBuffer   = 128 << 10 // of an answer that its client does not read; 4 MiB by default
)

// connections are those to one back end under one client certificate. HTTP/2 carries all requests but
// those that ask for another protocol, which HTTP/2 cannot carry.
type connections struct {
	certificate *tls.Certificate
	address     string // to which the service resolved
	many        *http.Transport
	upgrades    *http.Transport
	retired     atomic.Bool // they end when nobody uses them
}

// connect makes the connections under a certificate. It dials nothing.
func (b *backend) connect(certificate *tls.Certificate, address string) *connections {
	return &connections{
		certificate: certificate, address: address,
		many: b.transport(certificate, "h2", "http/1.1"), upgrades: b.transport(certificate, "http/1.1"),
	}
}

// connected returns the connections of now. A request that comes before the first check, as each does
// after a change of whom the object trusts, must have the client certificate too.
func (b *backend) connected() (*connections, error) {
	for {
		if c := b.connections.Load(); c != nil {
			return c, nil
		}
		certificate, err := b.of.cfg.Certificate()
		if err != nil {
			return nil, fmt.Errorf("the client certificate of this server cannot be read: %w", err)
		}
		b.connections.CompareAndSwap(nil, b.connect(certificate, ""))
	}
}

// retire ends the connections when nobody uses them.
func (c *connections) retire() {
	c.retired.Store(true)
	c.released()
}

// released is called when a request has ended. The last one closes connections that are retired:
// net/http would keep them for idleTimeout, and an object may change many times until then. Requests
// in flight end as they would have.
func (c *connections) released() {
	if c.retired.Load() {
		c.close()
		time.AfterFunc(lateEnd, c.close) // of requests and handshakes that are being broken off
	}
}

// close closes the connections that nobody uses.
func (c *connections) close() {
	c.many.CloseIdleConnections()
	c.upgrades.CloseIdleConnections()
}

// arrived is an answer, with its body.
type arrived struct {
	response http.Response
	body     io.ReadCloser
	over     *connections
	watch    *request.Exchange // nil if the body is not made of lines with events
	within   bool              // one of them
}

// Read reads the body. A watch that this server ends, because its client may no longer have it or because the server
// is about to stop, ends in order after a whole event.
func (a *arrived) Read(p []byte) (int, error) {
	n, err := a.body.Read(p)
	if n > 0 {
		a.within = p[n-1] != '\n'
	}
	if err != nil && !a.within && isEnded(a.watch) {
		err = io.EOF
	}
	return n, err
}

// isEnded reports whether this server has ended a stream, or its client has left it.
func isEnded(x *request.Exchange) bool { return x != nil && x.Ended != nil && x.Ended.Err() != nil }

// Close ends the request.
func (a *arrived) Close() error {
	err := a.body.Close()
	a.over.released()
	return err
}

// RoundTrip sends one request. Of the answer, only what inspect judges reaches a client: fields of
// interim answers (1xx) and trailers do not. They come at other times, and the proxy would take an
// interim answer as an occasion to clear the fields that this server has set.
func (b *backend) RoundTrip(r *http.Request) (*http.Response, error) {
	var watch *request.Exchange
	if on, ok := r.Context().Value(passageKey{}).(*passage); ok {
		r = r.WithContext(on.context) // without the proxy's hook for interim answers
		if on.exchange.Info.Load().Verb == request.VerbWatch {
			watch = on.exchange
		}
	}
	if b.of.cfg.EndpointRouting {
		to, err := b.route(r)
		if err != nil {
			return nil, unsent(r, err)
		}
		r = to
	}
	c, err := b.connected()
	if err != nil {
		return nil, unsent(r, err)
	}
	through := c.many
	if len(r.Header["Upgrade"]) > 0 {
		through = c.upgrades
	}
	res, err := tracing.Send(r, through.RoundTrip)
	if err != nil {
		c.released()
		return nil, err
	}
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		watch = nil
	}
	out := &arrived{response: *res, body: res.Body, over: c, watch: watch} // the transport fills in trailers of its own response
	out.response.Trailer = nil
	if res.StatusCode != http.StatusSwitchingProtocols { // that one is a connection from now on
		out.response.Body = out
	}
	return &out.response, nil
}

// unsent is the error for a request of which nothing was sent.
func unsent(r *http.Request, err error) error {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return &unreachable{err}
}

// route sends a request to one of the endpoints, so that all of them are asked and those that have gone
// are not. An endpoint has connections of its own: one connection would carry all requests.
func (b *backend) route(r *http.Request) (*http.Request, error) {
	address, err := b.resolve(r.Context())
	if err != nil {
		return nil, err
	}
	to, at := *r, *r.URL
	at.Host = address // to.Host stays the name of the service
	to.URL = &at
	return &to, nil
}

// reconnect makes new connections if the client certificate or the address of the service has changed.
func (b *backend) reconnect(ctx context.Context) error {
	certificate, err := b.of.cfg.Certificate()
	if err != nil {
		return fmt.Errorf("the client certificate of this server cannot be read: %w", err)
	}
	address, err := b.resolve(ctx)
	if err != nil {
		return err
	}
	have := b.connections.Load()
	if have != nil && have.address != "" && sameCertificate(have.certificate, certificate) && (have.address == address || b.of.cfg.EndpointRouting) {
		return nil
	}
	if have = b.connections.Swap(b.connect(certificate, address)); have != nil {
		have.retire()
	}
	return nil
}

func sameCertificate(a, b *tls.Certificate) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a == b || len(a.Certificate) > 0 && len(b.Certificate) > 0 && bytes.Equal(a.Certificate[0], b.Certificate[0])
}

func (b *backend) transport(certificate *tls.Certificate, protocols ...string) *http.Transport {
	t := &http.Transport{
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := b.dial(ctx, network, address, certificate, protocols)
			if err != nil {
				b.endpoints.forget()
				return nil, &unreachable{err}
			}
			return conn, nil
		},
		DisableCompression: true, IdleConnTimeout: idleTimeout, MaxIdleConnsPerHost: maxIdle,
		MaxResponseHeaderBytes: maxHeaderBytes,
		ForceAttemptHTTP2:      len(protocols) > 1,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: pingAfter, PingTimeout: pingTimeout, WriteByteTimeout: writeTimeout,
			MaxReceiveBufferPerStream: streamBuffer,
		},
	}
	if len(protocols) == 1 {
		t.Protocols = new(http.Protocols)
		t.Protocols.SetHTTP1(true)
	}
	return t
}

// unreachable is an error before anything of a request was sent.
type unreachable struct{ cause error }

func (u *unreachable) Error() string { return u.cause.Error() }
func (u *unreachable) Unwrap() error { return u.cause }

// serverName is the name that the certificate of a service must be for.
func (b *backend) serverName() string {
	return b.service.Spec.Service.Name + "." + b.service.Spec.Service.Namespace + ".svc"
}

// address is where the back end has a path, as messages name it.
func (b *backend) address(path string) string {
	return "https://" + net.JoinHostPort(b.serverName(), strconv.Itoa(int(portOf(b.service.Spec.Service)))) + path
}

// dial connects to the service and verifies its certificate. address is an endpoint if requests are
// routed to endpoints, and else a name that says nothing.
func (b *backend) dial(ctx context.Context, network, address string, certificate *tls.Certificate, protocols []string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: b.serverName(), NextProtos: protocols}
	if bundle := b.service.Spec.CABundle; len(bytes.TrimSpace(bundle)) > 0 {
		pool, err := webhook.Authorities(bundle)
		if err != nil {
			return nil, fmt.Errorf("spec.caBundle: %w", err)
		}
		cfg.RootCAs = pool
	}
	if b.service.Spec.InsecureSkipTLSVerify {
		cfg.InsecureSkipVerify = true //nolint:gosec // the object says so
	}
	if certificate != nil {
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate, nil }
	}
	if !b.of.cfg.EndpointRouting {
		var err error
		if address, err = b.resolve(ctx); err != nil {
			return nil, err
		}
	}
	plain, err := webhook.Dialer(b.of.egress.Dialer(egress.Cluster), net.Dialer{}, b.of.refuse)(ctx, network, address)
	if err != nil {
		return nil, err
	}
	one := &counted{Conn: plain}
	conn := tls.Client(one, cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = plain.Close()
		return nil, handshakeError(err)
	}
	if conn.ConnectionState().NegotiatedProtocol == "h2" && !one.count(&b.shared) {
		_ = plain.Close()
		return nil, errShared
	}
	return conn, nil
}

// maxShared is how many connections over HTTP/2 a back end may have. One carries a hundred requests
// and more. A back end that says GOAWAY after each answer, and leaves the connection open, would
// have one for each request of the last idleTimeout.
const maxShared = 256

var errShared = fmt.Errorf("more than %d connections are open to the server", maxShared)

// counted is a connection that may count among those over HTTP/2.
type counted struct {
	net.Conn
	in   *atomic.Int64 // nil if it does not count
	gone sync.Once
}

// count adds the connection to a number until it is closed, if there is room.
func (c *counted) count(in *atomic.Int64) bool {
	if in.Add(1) > maxShared {
		in.Add(-1)
		return false
	}
	c.in = in
	return true
}

// Close closes the connection.
func (c *counted) Close() error {
	if c.in != nil {
		c.gone.Do(func() { c.in.Add(-1) })
	}
	return c.Conn.Close()
}

// handshakeError says in short what is wrong with a certificate.
func handshakeError(err error) error {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return fmt.Errorf("%w; spec.caBundle must have the authority of the service's certificate", err)
	}
	return err
}

// refuse rejects addresses that a service must not lead to, after names were resolved.
func (a *Aggregator) refuse(ip netip.Addr) error {
	switch {
	case ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified():
		return errors.New("services at link-local, multicast and unspecified addresses are not asked")
	case ip.IsLoopback() && !a.cfg.AllowLoopback:
		return errors.New("services at loopback addresses are not asked; see Config.AllowLoopback")
	case webhook.IsMetadata(ip):
		return errors.New("services at addresses of metadata services are not asked")
	}
	return nil
}
