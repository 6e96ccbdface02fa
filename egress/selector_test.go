package egress_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/egress"
	"github.com/kindwright/kindwright/egress/egresstest"
	"github.com/kindwright/kindwright/internal/leak"
	"github.com/kindwright/kindwright/internal/metrics"
	"github.com/kindwright/kindwright/internal/selfsigned"
)

func TestMain(m *testing.M) { leak.Main(m) }

// selector is that of a document.
func selector(t testing.TB, document string) *egress.Selector {
	t.Helper()
	c, err := egress.Parse([]byte(document))
	require.NoError(t, err)
	s, err := egress.New(c, egress.Options{})
	require.NoError(t, err)
	return s
}

// echo is a server that sends back what it is told.
func echo(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	return l.Addr().String()
}

// says sends something and requires it back.
func says(t testing.TB, c net.Conn) {
	t.Helper()
	_, err := c.Write([]byte("hello"))
	require.NoError(t, err)
	back := make([]byte, 5)
	_, err = io.ReadFull(c, back)
	require.NoError(t, err)
	require.Equal(t, "hello", string(back))
	require.NoError(t, c.Close())
}

func TestEGRESS_13_TunnelsOverTCPAndASocket(t *testing.T) {
	far := echo(t)
	for name, tunnel := range map[string]*egresstest.Server{"tcp": egresstest.ListenTCP(t, nil), "uds": egresstest.Listen(t)} {
		s := selector(t, tunnel.Document("cluster", "etcd"))
		tunnel.Lead("shop.internal:443", far)
		require.Nil(t, s.Dialer(egress.ControlPlane))
		for _, address := range []string{far, "shop.internal:443"} {
			c, err := s.Dialer(egress.Cluster)(t.Context(), "tcp", address)
			require.NoError(t, err, name)
			says(t, c)
		}
		c, err := s.Dialer(egress.Etcd)(t.Context(), "tcp4", far)
		require.NoError(t, err, name)
		says(t, c)
		require.Equal(t, []string{far, "shop.internal:443", far}, tunnel.Asked())
	}
}

// The context is about the connecting. A connection that is open does not end with it.
func TestAConnectionOutlivesItsContext(t *testing.T) {
	tunnel, far := egresstest.Listen(t), echo(t)
	ctx, cancel := context.WithCancel(t.Context())
	c, err := selector(t, tunnel.Document("cluster")).Dialer(egress.Cluster)(ctx, "tcp", far)
	require.NoError(t, err)
	cancel()
	says(t, c)
}

// renewed writes a client certificate of an authority.
func renewed(t testing.TB, dir, name string, by *selfsigned.Authority) {
	t.Helper()
	pair, err := by.Client(name)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.key"), pair.Key, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.crt"), pair.Cert, 0o600))
}

func TestEGRESS_09_11_TLSWithACertificateThatIsFollowed(t *testing.T) {
	dir := t.TempDir()
	authority, err := selfsigned.NewAuthority("tunnels")
	require.NoError(t, err)
	serving, err := authority.Serving("tunnel.internal")
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(serving.Cert, serving.Key)
	require.NoError(t, err)
	names := make(chan string, 100)
	clients := x509.NewCertPool()
	clients.AddCert(authority.Certificate())
	tunnel := egresstest.ListenTCP(t, &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients,
		VerifyConnection: func(c tls.ConnectionState) error { names <- c.PeerCertificates[0].Subject.CommonName; return nil },
	})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ca.crt"), authority.PEM(), 0o600))
	renewed(t, dir, "first", authority)
	document := func(more string) string {
		return cluster(fmt.Sprintf("proxyProtocol: HTTPConnect, transport: {tcp: {url: 'https://%s', tlsConfig: {clientKey: %[2]s/tls.key, clientCert: %[2]s/tls.crt, %[3]s}}}",
			tunnel.Address, dir, more))
	}
	far, trusts := echo(t), "caBundle: "+filepath.Join(dir, "ca.crt")
	var said bytes.Buffer
	c, err := egress.Parse([]byte(document(trusts + ", tlsServerName: tunnel.internal")))
	require.NoError(t, err)
	s, err := egress.New(c, egress.Options{Logger: funcr.New(func(_, line string) { said.WriteString(line) }, funcr.Options{})})
	require.NoError(t, err)
	name := func() string {
		c, err := s.Dialer(egress.Cluster)(t.Context(), "tcp", far)
		require.NoError(t, err)
		says(t, c)
		return <-names
	}
	require.Equal(t, "first", name())
	renewed(t, dir, "second", authority)
	require.Eventually(t, func() bool { return name() == "second" }, time.Minute, 50*time.Millisecond)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.crt"), []byte("nothing"), 0o600))
	require.Eventually(t, func() bool { require.Equal(t, "second", name()); return said.Len() > 0 }, time.Minute, 50*time.Millisecond)
	require.Contains(t, said.String(), "the last good one is used")

	renewed(t, dir, "third", authority)
	tunnel.Forget()
	for more, want := range map[string]string{
		trusts + ", tlsServerName: other.internal": "certificate is valid for",
		"tlsServerName: tunnel.internal":           "certificate signed by unknown authority",
	} {
		_, err = selector(t, document(more)).Dialer(egress.Cluster)(t.Context(), "tcp", far)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, `egress selector "cluster": cannot connect to the tunnel server `+tunnel.Address)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ca.crt"), []byte("nothing"), 0o600))
	c, err = egress.Parse([]byte(document(trusts)))
	require.NoError(t, err)
	_, err = egress.New(c, egress.Options{})
	require.ErrorContains(t, err, "has no certificate in PEM")
	require.Empty(t, tunnel.Asked(), "no request was sent over a connection that nobody verified")
}

// A tunnel server that does not tunnel is an error that names it, and repeats nothing that it says.
func TestEGRESS_13_TunnelsThatFail(t *testing.T) {
	for _, c := range []struct {
		answer func(net.Conn)
		want   string
	}{
		{egresstest.Say("HTTP/1.1 500 marked\r\nContent-Length: 6\r\n\r\nmarked"), "it answered 500 Internal Server Error"},
		{egresstest.Say("HTTP/1.1 407 marked\r\n\r\n"), "it answered 407 Proxy Authentication Required"},
		{egresstest.Say("HTTP/1.1 204 marked\r\n\r\n"), "it answered 204 No Content"},
		{egresstest.Say("HTTP/1.1 101 marked\r\n\r\n"), "it answered 101 Switching Protocols"},
		{egresstest.Say("HTTP/1.1 302 Found\r\nLocation: http://marked/\r\n\r\n"), "it answered 302 Found"},
		{egresstest.Say("HTTP/1.1 799 marked\r\n\r\n"), "it answered 799"},
		{egresstest.Say("<html>marked</html>\r\n\r\n"), "its answer is not HTTP"},
		{egresstest.Say("HTTP/1.1 200 OK\r\nmarked\r\n\r\n"), "its answer is not HTTP"},
		{egresstest.Say("HTTP/1.1 200 OK\r\n"), "it closed the connection without an answer"},
		{func(net.Conn) {}, ""},
		{egresstest.Say("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("marked", 1<<20)), "the head of its answer has more than 65536 bytes"},
		{egresstest.Endless, "the head of its answer has more than 65536 bytes"},
	} {
		tunnel := egresstest.Listen(t)
		tunnel.Answer(c.answer)
		s := selector(t, tunnel.Document("cluster"))
		_, err := s.Dialer(egress.Cluster)(t.Context(), "tcp", "10.1.2.3:443")
		require.ErrorContains(t, err, `egress selector "cluster": the tunnel server `+tunnel.Address+" did not connect to 10.1.2.3:443: "+c.want)
		require.NotContains(t, err.Error(), "marked")
	}
	tunnel := egresstest.Listen(t)
	s := selector(t, tunnel.Document("controlplane"))
	tunnel.Close()
	_, err := s.Dialer(egress.ControlPlane)(t.Context(), "tcp", echo(t))
	require.ErrorContains(t, err, `egress selector "controlplane": cannot connect to the tunnel server `+tunnel.Address)
}

// Servers of HTTP/2 without TLS speak first, and a tunnel may hand that on together with its own answer.
func TestEGRESS_13_TheOtherEndSpeaksFirst(t *testing.T) {
	tunnel := egresstest.Listen(t)
	tunnel.Answer(func(c net.Conn) {
		_, _ = c.Read(make([]byte, 1<<10))
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\nhello")
		_, _ = c.Read(make([]byte, 1)) // until the client has spoken
		_, _ = io.WriteString(c, ", world")
	})
	conn, err := selector(t, tunnel.Document("cluster")).Dialer(egress.Cluster)(t.Context(), "tcp", "10.1.2.3:443")
	require.NoError(t, err)
	first := make([]byte, 5)
	_, err = io.ReadFull(conn, first)
	require.NoError(t, err)
	require.Equal(t, "hello", string(first))
	_, err = io.WriteString(conn, "!")
	require.NoError(t, err)
	rest, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, ", world", string(rest))
	require.NoError(t, conn.Close())
}

// A tunnel server that does not answer ends with the context, and after a while without one.
func TestEGRESS_13_ASlowTunnelEndsInTime(t *testing.T) {
	tunnel, asked := egresstest.Listen(t), make(chan struct{}, 1)
	tunnel.Answer(func(c net.Conn) {
		_, _ = c.Read(make([]byte, 1<<10))
		asked <- struct{}{}
		_, _ = c.Read(make([]byte, 1)) // until the other side closes
	})
	s := selector(t, tunnel.Document("cluster"))
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("nobody waits")
	go func() { <-asked; cancel(why) }()
	_, err := s.Dialer(egress.Cluster)(ctx, "tcp", "10.1.2.3:443")
	require.ErrorIs(t, err, why)

	synctest.Test(t, func(t *testing.T) { // with the clock of the bubble
		dial := slowGRPC(t)
		began := time.Now()
		_, err := dial(context.Background(), "tcp", "10.1.2.3:443")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 30*time.Second, time.Since(began))
	})
}

// slowGRPC is a tunnel that waits for the end of its context.
func slowGRPC(t testing.TB) egress.DialFunc {
	c, err := egress.Parse([]byte(cluster("proxyProtocol: GRPC, transport: {uds: {udsName: /run/grpc}}")))
	require.NoError(t, err)
	s, err := egress.New(c, egress.Options{GRPC: func(_ context.Context, socket string) (egress.DialFunc, error) {
		require.Equal(t, "/run/grpc", socket)
		return func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }, nil
	}})
	require.NoError(t, err)
	return s.Dialer(egress.Cluster)
}

// What could mean something else to a tunnel server than to this one is not sent to it.
func TestEGRESS_13_SSRF_AddressesWithTwoMeanings(t *testing.T) {
	tunnel := egresstest.Listen(t)
	dial := selector(t, tunnel.Document("cluster")).Dialer(egress.Cluster)
	for _, address := range []string{
		"", "a", "a:", "a:0", "a:65536", "a:http", ":1", "a b:1", "a\r\nHost: b:1", "a/b:1", "u@a:1", "[fe80::1%eth0]:1", "[fe80::1%a\r\nb]:1", "ä.example:1", ".:1",
		"2130706433:1", "0x7f000001:1", "127.1:1", "0x7f.1:1", "a.0x7F:1", "169.254.169.254.:1", "1.2.3.4.5:1", "0x:1", "010.0.0.1:1",
	} {
		_, err := dial(t.Context(), "tcp", address)
		require.ErrorContains(t, err, `egress selector "cluster": a tunnel does not lead to the address`, address)
	}
	_, err := dial(t.Context(), "udp", "a:1")
	require.ErrorContains(t, err, `a tunnel does not carry the network "udp"`)
	require.Empty(t, tunnel.Asked())
	far := echo(t)
	for _, address := range []string{"10.0.0.1:1", "[2001:db8::1]:443", "a_b.c-d.svc:1", "4.a:1", "a.example.:1", "0xg:1", "x0x:1"} {
		tunnel.Lead(address, far)
		c, err := dial(t.Context(), "tcp", address)
		require.NoError(t, err, address)
		says(t, c)
	}
}

func TestWhatIsCounted(t *testing.T) {
	tunnel, far := egresstest.Listen(t), echo(t)
	s := selector(t, tunnel.Document("cluster", "controlplane"))
	for _, traffic := range []egress.Traffic{egress.Cluster, egress.ControlPlane} {
		c, err := s.Dialer(traffic)(t.Context(), "tcp", far)
		require.NoError(t, err)
		says(t, c)
	}
	tunnel.Answer(func(net.Conn) {})
	_, err := s.Dialer(egress.Cluster)(t.Context(), "tcp", far)
	require.Error(t, err)
	tunnel.Close()
	_, err = s.Dialer(egress.Cluster)(t.Context(), "tcp", far)
	require.Error(t, err)
	var r metrics.Registry
	s.CollectMetrics(&r)
	var text strings.Builder
	require.NoError(t, metrics.Write(&text, r.Families()))
	for _, line := range []string{
		`apiserver_egress_dialer_dial_start_total{protocol="http_connect",transport="uds"} 4`,
		`apiserver_egress_dialer_dial_duration_seconds_count{protocol="http_connect",transport="uds"} 2`,
		`apiserver_egress_dialer_dial_duration_seconds_bucket{protocol="http_connect",transport="uds",le="12.5"} 2`,
		`apiserver_egress_dialer_dial_failure_count{protocol="http_connect",transport="uds",stage="connect"} 1`,
		`apiserver_egress_dialer_dial_failure_count{protocol="http_connect",transport="uds",stage="proxy"} 1`,
	} {
		require.Contains(t, text.String(), line+"\n")
	}
}
