package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/internal/files"
	"github.com/kindwright/kindwright/internal/metrics"
	"github.com/kindwright/kindwright/internal/metrics/apiserver"
	"github.com/kindwright/kindwright/status"
)

// Traffic is a kind of outgoing traffic.
type Traffic string

// The kinds of traffic.
const (
	// ControlPlane is traffic to what stands beside the server: webhooks that authenticate, authorize,
	// record or judge images, webhooks with a URL, issuers of tokens that ask for it.
	ControlPlane Traffic = "controlplane"

	// Cluster is traffic to what runs in the cluster: services of webhooks and of APIServices, kubelets,
	// nodes and pods, issuers of tokens that ask for it.
	Cluster Traffic = "cluster"

	// Etcd is traffic to the store.
	Etcd Traffic = "etcd"
)

// trafficOf returns the kind that a document means.
func trafficOf(name string) (Traffic, bool) {
	switch t := Traffic(strings.ToLower(name)); t {
	case ControlPlane, Cluster, Etcd:
		return t, true
	case "master": // the former name
		return ControlPlane, true
	}
	return "", false
}

// DialFunc connects to an address, "host:port". The context is about the connecting alone.
type DialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// GRPC connects to a tunnel server of the protocol GRPC, which is behind a Unix socket. What it returns
// opens one connection through the tunnel, and is called once. Both release the tunnel if they return an
// error; otherwise it ends with the connection. The contexts are about the connecting alone.
type GRPC func(ctx context.Context, socket string) (DialFunc, error)

// Options are what a [Selector] needs beside its configuration. The zero value is ready for use.
type Options struct {
	// GRPC are the tunnels of the protocol GRPC, such as konnectivity.Tunnels of the module
	// egress/konnectivity. A configuration that names the protocol is an error without them.
	GRPC GRPC

	// OptionalSelections accepts a document without the list egressSelections, as Kubernetes does.
	// Nothing is selected then.
	OptionalSelections bool

	Logger logr.Logger // hears of changed certificates that cannot be read
}

// Selector has a way to connect for each kind of traffic. It is safe for concurrent use. A nil Selector
// selects nothing.
type Selector struct {
	ways  map[Traffic]*way
	stats apiserver.Egress
}

// way is what one selection says. Its tunnel is nil for Direct.
type way struct{ tunnel *tunnel }

// Load makes the Selector of a file, which has an EgressSelectorConfiguration. The file is read once; the
// certificates and keys that it names are read again when they change.
func Load(path string, o Options) (*Selector, error) {
	document, err := files.Read(path)
	if err != nil {
		return nil, fmt.Errorf("failed to read egress selector config: %w", err)
	}
	c, err := Parse(document)
	if err != nil {
		return nil, err
	}
	return New(c, o)
}

// New makes the Selector of a configuration, which it validates. It does not connect yet.
func New(c Configuration, o Options) (*Selector, error) {
	if c.Selections == nil && o.OptionalSelections {
		c.Selections = []Selection{}
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s := &Selector{ways: map[Traffic]*way{}}
	f := &status.Fields{}
	for i, selection := range c.Selections {
		traffic, _ := trafficOf(selection.Name)
		made, err := s.way(traffic, selection.Connection, o)
		if errors.Is(err, errNoGRPC) {
			f.At("egressSelections").Index(i).Child("connection").Child("proxyProtocol").Invalid(ProtocolGRPC, err.Error())
		} else if err != nil {
			return nil, fmt.Errorf("failed to create dialer for egressSelection %q: %w", traffic, err)
		}
		s.ways[traffic] = made
	}
	if err := invalid(f); err != nil {
		return nil, err
	}
	return s, nil
}

var errNoGRPC = errors.New("this server has no tunnels of GRPC")

// way makes a way to connect of a connection that is valid.
func (s *Selector) way(traffic Traffic, c *Connection, o Options) (*way, error) {
	if c.ProxyProtocol == ProtocolDirect {
		return &way{}, nil
	}
	t := &tunnel{traffic: traffic}
	switch {
	case c.ProxyProtocol == ProtocolGRPC && o.GRPC == nil:
		return nil, errNoGRPC
	case c.ProxyProtocol == ProtocolGRPC:
		socket := c.Transport.UDS.UDSName
		t.server = socket
		t.connect = func(ctx context.Context) (DialFunc, error) { return o.GRPC(ctx, socket) }
		t.stats = s.stats.Of("grpc", "uds")
	case c.Transport.UDS != nil:
		socket := c.Transport.UDS.UDSName
		t.server = socket
		t.connect = byHTTP(func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "unix", socket) })
		t.stats = s.stats.Of("http_connect", "uds")
	default:
		dial, err := c.Transport.TCP.dialer(o.Logger)
		if err != nil {
			return nil, err
		}
		t.server, t.connect, t.stats = c.Transport.TCP.address(), byHTTP(dial), s.stats.Of("http_connect", "tcp")
	}
	return &way{t}, nil
}

// address returns where a tunnel server listens, as "host:port".
func (t *TCPTransport) address() string {
	u, err := url.Parse(t.URL)
	if err != nil {
		return "" // it was validated
	}
	return net.JoinHostPort(u.Hostname(), portOf(u))
}

// Selects reports whether the configuration says how to connect for a kind of traffic, be it directly.
func (s *Selector) Selects(t Traffic) bool { return s != nil && s.ways[t] != nil }

// Dialer returns what connects through the tunnel for a kind of traffic. It is nil if there is none, because
// the configuration does not name the traffic or says Direct: the caller connects by itself then.
//
// Names are resolved by the tunnel server, in its network. A caller that must not reach some addresses has
// to say so before, and to resolve names itself.
func (s *Selector) Dialer(t Traffic) DialFunc {
	if !s.Selects(t) || s.ways[t].tunnel == nil {
		return nil
	}
	return s.ways[t].tunnel.dial
}

// CollectMetrics registers what is counted about tunnels, under the names of Kubernetes.
func (s *Selector) CollectMetrics(r *metrics.Registry) { s.stats.CollectMetrics(r) }

// dialTimeout bounds how long a connection through a tunnel takes to open, whatever the context says.
const dialTimeout = 30 * time.Second
