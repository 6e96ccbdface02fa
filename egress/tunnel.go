package egress

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/internal/metrics/apiserver"
)

// tunnel connects through a tunnel server.
type tunnel struct {
	traffic Traffic
	server  string // where the tunnel server is, for messages
	connect func(context.Context) (DialFunc, error)
	stats   *apiserver.EgressDials
}

// dial opens a connection through the tunnel.
func (t *tunnel) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if err := checkTarget(network, address); err != nil {
		return nil, fmt.Errorf("egress selector %q: %w", t.traffic, err)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	began := time.Now()
	t.stats.Started()
	through, err := t.connect(ctx)
	if err != nil {
		t.stats.Failed(apiserver.EgressConnect)
		return nil, fmt.Errorf("egress selector %q: cannot connect to the tunnel server %s: %w", t.traffic, t.server, err)
	}
	conn, err := through(ctx, network, address)
	if err != nil {
		t.stats.Failed(apiserver.EgressProxy)
		return nil, fmt.Errorf("egress selector %q: the tunnel server %s did not connect to %s: %w", t.traffic, t.server, address, err)
	}
	t.stats.Opened(time.Since(began))
	return conn, nil
}

// maxTarget is how much of a wrong address is repeated.
const maxTarget = 256

// checkTarget rejects what is no address of a TCP port. A tunnel server reads the address in a text of its
// own, so it must have one meaning: a name with blanks could become another request, and the resolvers of
// many systems take a name such as 2130706433 or 0x7f.1 for an address that nobody has looked at.
func checkTarget(network, address string) error {
	switch network {
	case "tcp", "tcp4", "tcp6":
	default:
		return fmt.Errorf("a tunnel does not carry the network %q", network)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || !isPort(port) || !isHost(host) {
		return fmt.Errorf("a tunnel does not lead to the address %q", clip.Text(address, maxTarget))
	}
	return nil
}

// isHost reports whether a host is an address without a zone, or a name that is no number.
func isHost(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Zone() == ""
	}
	for _, c := range []byte(host) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	name := strings.TrimSuffix(host, ".")
	last := name[strings.LastIndexByte(name, '.')+1:]
	return last != "" && !isNumber(last)
}

// isNumber reports whether the last label of a name makes resolvers take the name for an IPv4 address.
func isNumber(label string) bool {
	label = strings.ToLower(label)
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// byHTTP makes tunnels by HTTP CONNECT of connections to a tunnel server.
func byHTTP(dial func(context.Context) (net.Conn, error)) func(context.Context) (DialFunc, error) {
	return func(ctx context.Context) (DialFunc, error) {
		conn, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, _, address string) (net.Conn, error) {
			first, err := connectTo(ctx, conn, address)
			if err != nil {
				_ = conn.Close()
				return nil, err
			}
			if len(first) > 0 {
				return &greeted{Conn: conn, first: first}, nil
			}
			return conn, nil
		}, nil
	}
}

// greeted is a connection whose other end has spoken first, as a server of HTTP/2 without TLS does.
type greeted struct {
	net.Conn
	first []byte // what came together with the tunnel server's answer
}

// Read reads what came first before the rest.
func (g *greeted) Read(p []byte) (int, error) {
	if len(g.first) == 0 {
		return g.Conn.Read(p)
	}
	n := copy(p, g.first)
	g.first = g.first[n:]
	return n, nil
}

// connectTo asks a tunnel server to connect, and returns what the other end has sent by then. When the
// context ends, the connection cannot be used further.
func connectTo(ctx context.Context, conn net.Conn, address string) (first []byte, err error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	first, err = exchange(conn, address)
	if !stop() { // the deadline is set, or will be in a moment
		return nil, context.Cause(ctx)
	}
	return first, err
}

// maxHead is how long the head of an answer of a tunnel server may be.
const maxHead = 64 << 10

// exchange sends the request and reads the head of its answer. What a tunnel server says beside the code is
// not repeated: messages of webhooks reach clients.
func exchange(conn net.Conn, address string) (first []byte, err error) {
	request := &http.Request{
		Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address,
		Header: http.Header{"User-Agent": {""}}, // which sends none
	}
	if err := request.Write(conn); err != nil {
		return nil, err
	}
	bounded := &io.LimitedReader{R: conn, N: maxHead}
	from := bufio.NewReader(bounded)
	// After a success there is no body, and otherwise nobody reads it.
	answer, err := http.ReadResponse(from, request) //nolint:bodyclose // it is the connection
	switch {
	case err == nil && answer.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("it answered %d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
	case err == nil:
		first, err = from.Peek(from.Buffered())
		return bytes.Clone(first), err
	case bounded.N <= 0:
		return nil, fmt.Errorf("the head of its answer has more than %d bytes", maxHead)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errors.New("it closed the connection without an answer")
	}
	if failed, ok := errors.AsType[*net.OpError](err); ok {
		return nil, failed
	}
	return nil, errors.New("its answer is not HTTP")
}
