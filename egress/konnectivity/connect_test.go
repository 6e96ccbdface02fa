package konnectivity_test

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	proxy "sigs.k8s.io/apiserver-network-proxy/konnectivity-client/proto/client"

	"github.com/kindwright/kindwright/egress"
	"github.com/kindwright/kindwright/egress/konnectivity"
)

// tunnels is a konnectivity server that connects by itself.
type tunnels struct {
	proxy.UnimplementedProxyServiceServer
	mute bool // it answers nothing

	mu    sync.Mutex
	asked []string
	open  int
}

func (s *tunnels) Proxy(stream proxy.ProxyService_ProxyServer) error {
	s.count(1)
	defer s.count(-1)
	var far net.Conn
	for {
		p, err := stream.Recv()
		if err != nil {
			if far != nil {
				_ = far.Close()
			}
			return err
		}
		switch p.Type {
		case proxy.PacketType_DIAL_REQ:
			if s.mute {
				continue
			}
			far = s.dial(stream, p.GetDialRequest())
		case proxy.PacketType_DATA:
			_, _ = far.Write(p.GetData().Data)
		case proxy.PacketType_CLOSE_REQ:
			_ = far.Close()
			if err := stream.Send(&proxy.Packet{Type: proxy.PacketType_CLOSE_RSP, Payload: &proxy.Packet_CloseResponse{CloseResponse: &proxy.CloseResponse{ConnectID: 1}}}); err != nil {
				return err
			}
		}
	}
}

func (s *tunnels) dial(stream proxy.ProxyService_ProxyServer, r *proxy.DialRequest) net.Conn {
	s.mu.Lock()
	s.asked = append(s.asked, r.Address)
	s.mu.Unlock()
	answer := &proxy.DialResponse{Random: r.Random, ConnectID: 1}
	far, err := net.Dial(r.Protocol, r.Address)
	if err != nil {
		answer.Error = "nobody is there"
	}
	_ = stream.Send(&proxy.Packet{Type: proxy.PacketType_DIAL_RSP, Payload: &proxy.Packet_DialResponse{DialResponse: answer}})
	if err != nil {
		return nil
	}
	go func() {
		for buffer := make([]byte, 1<<10); ; {
			n, err := far.Read(buffer)
			if err != nil {
				return
			}
			_ = stream.Send(&proxy.Packet{Type: proxy.PacketType_DATA, Payload: &proxy.Packet_Data{Data: &proxy.Data{ConnectID: 1, Data: buffer[:n]}}})
		}
	}()
	return far
}

func (s *tunnels) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open += n
}

// serve starts the server and returns its socket.
func (s *tunnels) serve(t *testing.T) string {
	dir, err := os.MkdirTemp("", "konnectivity")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	server := grpc.NewServer()
	proxy.RegisterProxyServiceServer(server, s)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return socket
}

// ended waits until no tunnel is open.
func (s *tunnels) ended(t *testing.T) {
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.open == 0
	}, time.Minute, 10*time.Millisecond)
}

func selector(t *testing.T, socket string) egress.DialFunc {
	s, err := egress.New(egress.Configuration{Selections: []egress.Selection{{
		Name: "cluster",
		Connection: &egress.Connection{
			ProxyProtocol: egress.ProtocolGRPC, Transport: &egress.Transport{UDS: &egress.UDSTransport{UDSName: socket}},
		},
	}}}, egress.Options{GRPC: konnectivity.Connect})
	require.NoError(t, err)
	return s.Dialer(egress.Cluster)
}

func TestEGRESS_07_13_14_TunnelsOfKonnectivity(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	server := &tunnels{}
	dial := selector(t, server.serve(t))
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		c, err := dial(ctx, "tcp", l.Addr().String())
		require.NoError(t, err)
		cancel() // it was about the connecting
		_, err = c.Write([]byte("hello"))
		require.NoError(t, err)
		back := make([]byte, 5)
		_, err = io.ReadFull(c, back)
		require.NoError(t, err)
		require.Equal(t, "hello", string(back))
		require.Equal(t, l.Addr().String(), c.RemoteAddr().String())
		require.NotNil(t, c.LocalAddr())
		require.NoError(t, c.Close())
	}
	server.ended(t)
	require.Len(t, server.asked, 3)

	require.NoError(t, l.Close())
	_, err = dial(t.Context(), "tcp", l.Addr().String())
	require.ErrorContains(t, err, "nobody is there")
	server.ended(t)
}

func TestTunnelsThatFailLeaveNothingBehind(t *testing.T) {
	server := &tunnels{mute: true}
	dial := selector(t, server.serve(t))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := dial(ctx, "tcp", "10.1.2.3:443")
	require.ErrorContains(t, err, `egress selector "cluster"`)
	server.ended(t)

	absent := filepath.Join(t.TempDir(), "absent")
	_, err = selector(t, absent)(t.Context(), "tcp", "10.1.2.3:443")
	require.ErrorContains(t, err, `egress selector "cluster": cannot connect to the tunnel server `+absent)
}
