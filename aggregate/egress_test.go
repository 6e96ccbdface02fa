package aggregate_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/egress/egresstest"
)

// lead has a service at an address that only the tunnel server knows.
func (w *world) lead(tunnel *egresstest.Server, service, address string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	tunnel.Lead(address, w.addresses[service])
	w.addresses[service] = address
}

func TestEGRESS_13_BackEndsAreReachedThroughTheTunnelOfTheCluster(t *testing.T) {
	tunnel := egresstest.Listen(t)
	w := newWorld(t, nil, kindwright.Egress(tunnel.Selector(t, "cluster")))
	w.kindwright("boats", "v1")
	w.lead(tunnel, "boats", "10.9.8.7:443")
	w.register("boats", "v1")
	w.await("v1.boats.example.dev", "Passed")
	code, body := w.do("GET", "/apis/boats.example.dev/v1/namespaces/default/boats", "")
	require.Equal(t, 200, code, body)
	for _, asked := range tunnel.Asked() {
		require.Equal(t, "10.9.8.7:443", asked)
	}

	tunnel.Answer(func(net.Conn) {})
	w.kindwright("ships", "v2")
	w.lead(tunnel, "ships", "10.9.8.6:443")
	w.register("ships", "v2")
	message := w.await("v2.boats.example.dev", "FailedDiscoveryCheck")
	require.Contains(t, message, `egress selector "cluster": the tunnel server `+tunnel.Address+` did not connect to 10.9.8.6:443`)
	code, _ = w.do("GET", "/apis/boats.example.dev/v2/namespaces/default/boats", "")
	require.Equal(t, 503, code)
}

func TestEGRESS_13_SSRF_ATunnelIsNotAskedForAddressesOfAMachine(t *testing.T) {
	tunnel := egresstest.Listen(t)
	w := newWorld(t, nil, kindwright.Egress(tunnel.Selector(t, "cluster")))
	w.kindwright("boats", "v1")
	w.lead(tunnel, "boats", "169.254.169.254:443")
	w.register("boats", "v1")
	require.Contains(t, w.await("v1.boats.example.dev", "FailedDiscoveryCheck"), "are not asked")
	require.Empty(t, tunnel.Asked())
}
