package webhook

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/egress"
	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/internal/connection"
	"github.com/kindwright/kindwright/internal/pause"
	"github.com/kindwright/kindwright/internal/yaml"
)

// Config says where a webhook is. It has either a URL or a Service.
type Config struct {
	URL      string
	Service  *Service
	CABundle []byte        // PEM certificates of the authorities; none, or white space, means those of the system
	Timeout  time.Duration // of one request; default 30 seconds
	Users    *Users        // how the server proves who it is; nil: it does not

	// Egress says how the server connects: to a service as to what runs in the cluster, to a URL as to the
	// control plane, as in Kubernetes.
	Egress *egress.Selector
}

// Users are credentials by the names of servers. The name of a service is the one below svc.
type Users = connection.Users

// ReadUsers reads the users of a connection file, which has the form of a kubeconfig. Which one is for a
// server, says its name: "host:port", "host" for port 443, "*.domain", or "*".
func ReadUsers(path string) (*Users, error) { return connection.ReadUsers(path) }

// Service names a service and the path below it.
type Service struct {
	Namespace, Name, Path string
	Port                  int32 // default 443
}

// Resolver returns the address of a service, as "host:port". It is asked for each new connection.
type Resolver func(ctx context.Context, namespace, name string, port int32) (address string, err error)

// defaultTimeout is that of kube-apiserver for conversions.
const defaultTimeout = 30 * time.Second

// What is kept of connections that are not in use, and how long the head of an answer may be.
const (
	idleTimeout  = 90 * time.Second
	maxIdle      = 16
	maxHeadBytes = 64 << 10
)

// Client sends documents to a webhook. It is safe for concurrent use and keeps connections.
type Client struct {
	to        connection.Connection
	timeout   time.Duration
	transport *http.Transport
	closed    atomic.Bool
}

// New makes a client. It does not connect yet. A nil resolver leaves the names of services to DNS.
func New(c Config, resolve Resolver) (*Client, error) {
	at, host, err := c.address()
	if err != nil {
		return nil, err
	}
	var roots *x509.CertPool
	if len(bytes.TrimSpace(c.CABundle)) > 0 {
		if roots, err = Authorities(c.CABundle); err != nil {
			return nil, err
		}
	}
	out := &Client{timeout: c.Timeout}
	if out.timeout == 0 {
		out.timeout = defaultTimeout
	}
	connection.CleanPath(at) // every request has a query of its own
	out.transport = &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         c.dial(host, resolve),
		TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: idleTimeout, MaxIdleConnsPerHost: maxIdle,
		MaxResponseHeaderBytes: maxHeadBytes,
		// With HTTP/2 all requests would go to one of the servers behind a name.
		ForceAttemptHTTP2: isLocal(at.Hostname()),
	}
	if !out.transport.ForceAttemptHTTP2 {
		out.transport.TLSClientConfig.NextProtos = []string{"http/1.1"}
	}
	// Webhooks may be asked twice about one request. Connections that are kept end when a webhook is replaced.
	out.to = connection.Connection{URL: at.String(), Repeatable: true, Client: &http.Client{
		Transport:     out.transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if who := c.Users.For(host); who != nil {
		out.to.Authorize = who.Authorize
		out.transport.TLSClientConfig.GetClientCertificate = who.Certificate
	}
	return out, nil
}

// address returns the URL to post to, and "host:port".
func (c *Config) address() (*url.URL, string, error) {
	if s := c.Service; s != nil {
		port := int(s.Port)
		if port == 0 {
			port = 443
		}
		host := net.JoinHostPort(s.Name+"."+s.Namespace+".svc", strconv.Itoa(port))
		return &url.URL{Scheme: "https", Host: host, Path: "/" + strings.TrimPrefix(s.Path, "/")}, host, nil
	}
	if c.URL == "" {
		return nil, "", errors.New("webhook configuration must have either service or URL")
	}
	u, err := url.Parse(c.URL)
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("the URL of a webhook cannot be parsed: %w", err)
	case u.Scheme != "https" || u.Host == "" || u.User != nil:
		return nil, "", fmt.Errorf("the URL of a webhook must be https://host[/path], not %q", clip.Text(u.Redacted(), 256))
	}
	return u, u.Host, nil
}

func isLocal(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// Authorities reads the certificates of a bundle, of which there must be one.
func Authorities(bundle []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if pool.AppendCertsFromPEM(bundle) {
		return pool, nil
	}
	for rest := bundle; len(rest) > 0; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, errors.New("unable to load root certificates: unable to parse bytes as PEM block")
		}
		if block.Type != "CERTIFICATE" || len(block.Headers) != 0 {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return nil, fmt.Errorf("unable to load root certificates: failed to parse certificate: %w", err)
		}
	}
	return nil, errors.New("unable to load root certificates: no valid certificate authority data seen")
}

// dial returns what connects to the webhook, or to a proxy.
func (c *Config) dial(host string, resolve Resolver) egress.DialFunc {
	s, traffic := c.Service, egress.ControlPlane
	if s != nil {
		traffic = egress.Cluster
	}
	connect := Dialer(c.Egress.Dialer(traffic), net.Dialer{Timeout: defaultTimeout, KeepAlive: defaultTimeout}, refuseLocalServices)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if s != nil && resolve != nil && address == host {
			found, err := resolve(ctx, s.Namespace, s.Name, s.Port)
			if err != nil {
				return nil, err
			}
			address = found
		}
		return connect(ctx, network, address)
	}
}

// refuseLocalServices rejects addresses that only a machine itself can ask, after names were resolved.
// Whoever configures a webhook would else read the answers in error messages.
func refuseLocalServices(ip netip.Addr) error {
	switch {
	case ip.IsLinkLocalUnicast() || ip.IsMulticast():
		return errors.New("webhooks at link-local addresses are not asked")
	case IsMetadata(ip):
		return errors.New("webhooks at addresses of metadata services are not asked")
	}
	return nil
}

// maxRetries bounds how often one request is repeated.
const maxRetries = 10

// Post sends a JSON document and returns the answer as JSON, which has at most longest bytes. A webhook that
// cannot answer now, and says when it can, is asked again if there is time until then. The error for an answer
// that is not a success says what Kubernetes' client would say.
func (c *Client) Post(ctx context.Context, document []byte, longest int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	to := c.to
	to.Longest = longest
	if deadline, ok := ctx.Deadline(); ok { // that of the request may come before ours
		to.URL += "?timeout=" + wholeSeconds(time.Until(deadline)).String()
	}
	answer, err := to.Post(ctx, document)
	for range maxRetries {
		code, ok := errors.AsType[*connection.CodeError](err)
		if !ok || !code.Overloaded() || !waited(ctx, code.Pause) {
			break
		}
		answer, err = to.Post(ctx, document)
	}
	if c.closed.Load() {
		c.transport.CloseIdleConnections() // the one of this request is not needed again
	}
	if code, ok := errors.AsType[*connection.CodeError](err); ok {
		return nil, &Refusal{Code: code.Code, Said: refusal(code)}
	}
	if err != nil {
		return nil, err
	}
	return asJSON(answer, longest)
}

// Refusal is an answer that is not a success.
type Refusal struct {
	Code int
	Said string // what Kubernetes' client would say of it
}

// Error returns what the answer says.
func (r *Refusal) Error() string { return r.Said }

// waited waits, unless the time of the request is over before.
func waited(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return false
	}
	return pause.For(ctx, d) == nil
}

// asJSON converts an answer in YAML. Kubernetes reads both, whatever the answer says that it is.
func asJSON(answer []byte, longest int) ([]byte, error) {
	if bytes.HasPrefix(bytes.TrimLeft(answer, " \t\r\n"), []byte("{")) {
		return answer, nil
	}
	return yaml.RequestToJSON(answer, longest)
}

// wholeSeconds rounds up, as Kubernetes does for the time that it tells webhooks.
func wholeSeconds(d time.Duration) time.Duration {
	if whole := d.Truncate(time.Second); whole != d {
		return whole + time.Second
	}
	return d
}

// refusal describes an answer that is not a success, as Kubernetes' client does.
func refusal(e *connection.CodeError) string {
	if e.Said != "" {
		return e.Said
	}
	said := e.Text
	if said == "" {
		said = "unknown"
	}
	switch e.Code {
	case http.StatusBadRequest:
		return "the server rejected our request for an unknown reason"
	case http.StatusUnauthorized:
		return "the server has asked for the client to provide credentials"
	case http.StatusForbidden:
		return said
	case http.StatusNotFound:
		return "the server could not find the requested resource"
	case http.StatusMethodNotAllowed:
		return "the server does not allow this method on the requested resource"
	case http.StatusNotAcceptable:
		if e.Text == "" {
			return "the server was unable to respond with a content type that the client supports"
		}
		return said
	case http.StatusConflict:
		return "the server reported a conflict"
	case http.StatusUnsupportedMediaType:
		return said
	case http.StatusUnprocessableEntity:
		return "the server rejected our request due to an error in our request"
	case http.StatusTooManyRequests:
		return "the server has received too many requests and has asked us to try again later"
	case http.StatusServiceUnavailable:
		return "the server is currently unable to handle the request"
	case http.StatusGatewayTimeout:
		return "the server was unable to return a response in the time allotted, but may still be processing the request"
	}
	if e.Code >= http.StatusInternalServerError {
		return fmt.Sprintf("an error on the server (%q) has prevented the request from succeeding", said)
	}
	return fmt.Sprintf("the server responded with the status code %d but did not return more information", e.Code)
}

// Close closes the connections that are not in use. Requests in progress go on, and their connections
// are not kept.
func (c *Client) Close() {
	c.closed.Store(true)
	c.transport.CloseIdleConnections()
}

// NewUID returns a random name for one exchange with a webhook.
func NewUID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	h := hex.EncodeToString(id[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
