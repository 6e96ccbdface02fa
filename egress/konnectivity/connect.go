package konnectivity

import (
	"context"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"sigs.k8s.io/apiserver-network-proxy/konnectivity-client/pkg/client"

	"github.com/kindwright/kindwright/egress"
)

var _ egress.GRPC = Connect

// Connect connects to a konnectivity server behind a Unix socket. It is an [egress.GRPC].
func Connect(ctx context.Context, socket string) (egress.DialFunc, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx)) // a connection outlives what opens it
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	//nolint:staticcheck // the client dials with the options of gRPC's former API
	tunnel, err := client.CreateSingleUseGrpcTunnelWithContext(ctx, life, "passthrough:///konnectivity",
		grpc.WithContextDialer(dial), grpc.WithBlock(), grpc.WithReturnConnectionError(), grpc.FailOnNonTempDialError(true),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		end()
		return nil, err
	}
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		through, err := tunnel.DialContext(ctx, "tcp", address)
		if err != nil {
			end()
			return nil, err
		}
		return &connection{through, end, at(socket), at(address)}, nil
	}, nil
}

// connection ends its tunnel.
type connection struct {
	net.Conn
	end       context.CancelFunc
	near, far at
}

// Close closes the connection and its tunnel.
func (c *connection) Close() error {
	defer c.end()
	return c.Conn.Close()
}

// LocalAddr returns the socket of the konnectivity server.
func (c *connection) LocalAddr() net.Addr { return c.near }

// RemoteAddr returns what the server was asked to connect to.
func (c *connection) RemoteAddr() net.Addr { return c.far }

// at is an address as it was asked for.
type at string

// Network returns the kind of the address.
func (at) Network() string { return "tcp" }

// String returns the address.
func (a at) String() string { return string(a) }
