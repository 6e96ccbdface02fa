package kube

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/egress/egresstest"
)

// tunneled are the ways into a cluster through a tunnel.
func tunneled(t *testing.T) (*egresstest.Server, *reach) {
	t.Helper()
	tunnel := egresstest.Listen(t)
	return tunnel, newReach(&Kubelets{}, tunnel.Selector(t, "cluster"))
}

func TestEGRESS_13_KubeletsAndPodsAreReachedThroughTheTunnelOfTheCluster(t *testing.T) {
	say := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Host) })
	kubelet, pod := httptest.NewTLSServer(say), httptest.NewServer(say)
	t.Cleanup(kubelet.Close)
	t.Cleanup(pod.Close)
	tunnel, r := tunneled(t)
	tunnel.Lead("n1.internal:10250", kubelet.Listener.Addr().String())
	tunnel.Lead("10.77.0.1:10250", kubelet.Listener.Addr().String())
	tunnel.Lead("10.77.0.2:8080", pod.Listener.Addr().String())
	for _, c := range []struct {
		by http.RoundTripper
		at string
	}{
		{r.kubelets, "https://n1.internal:10250"}, {r.unverified, "https://10.77.0.1:10250"}, {r.nodes, "https://10.77.0.1:10250"}, {r.others, "http://10.77.0.2:8080"},
	} {
		tunnel.Forget()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.at, http.NoBody)
		require.NoError(t, err)
		res, err := c.by.RoundTrip(req)
		require.NoError(t, err, c.at)
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		_, host, _ := strings.Cut(c.at, "://")
		require.Equal(t, host, string(text))
		require.Equal(t, []string{host}, tunnel.Asked())
	}
	tunnel.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, pod.URL, http.NoBody)
	require.NoError(t, err)
	_, err = r.kubelets.RoundTrip(req)
	require.ErrorContains(t, err, `egress selector "cluster"`)
}

// A proxy may speak HTTP without TLS. A name that the tunnel resolves could lead to a metadata service, so it is
// resolved here, and the tunnel is asked for an address.
func TestEGRESS_13_SSRF_ProxiesAskATunnelForAddressesThatWereJudged(t *testing.T) {
	tunnel, r := tunneled(t)
	for _, host := range []string{
		"localhost", "127.0.0.1", "[::1]", "169.254.169.254", "[64:ff9b::a9fe:a9fe]", "[fd00:ec2::254]", "100.100.100.200", "[::ffff:127.0.0.1]",
	} {
		for _, by := range []http.RoundTripper{r.nodes, r.others} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://%s:80/", host), http.NoBody)
			require.NoError(t, err)
			_, err = by.RoundTrip(req)
			require.ErrorIs(t, err, errNotGlobal, host)
		}
	}
	for _, host := range []string{"169.254.169.254", "[fd00:ec2::254]"} { // nor logs and commands
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://%s:80/", host), http.NoBody)
		require.NoError(t, err)
		_, err = r.kubelets.RoundTrip(req)
		require.ErrorIs(t, err, errNotGlobal, host)
	}
	require.Empty(t, tunnel.Asked())
}
