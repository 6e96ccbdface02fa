package webhook_test

import (
	"context"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/egress"
	"github.com/kindwright/kindwright/egress/egresstest"
	"github.com/kindwright/kindwright/internal/webhook"
)

// ask converts one object with a webhook.
func ask(ctx context.Context, t testing.TB, c webhook.Config, resolve webhook.Resolver) error {
	t.Helper()
	client, err := webhook.New(c, resolve)
	require.NoError(t, err)
	defer client.Close()
	_, err = client.Converter(webhook.Conversion{Group: "apiextensions.k8s.io", Versions: []string{"v1"}})(ctx, v2, []object{pot("x")})
	return err
}

// As in Kubernetes, a service is in the cluster, and a URL beside the server.
func TestEGRESS_13_ServicesAndURLsHaveTunnels(t *testing.T) {
	at := serve(t, converting(t, honest))
	address := strings.TrimSuffix(strings.TrimPrefix(at.URL, "https://"), "/convert")
	service := webhook.Config{Service: &webhook.Service{Namespace: "shop", Name: "converter"}}
	for traffic, config := range map[string]webhook.Config{"controlplane": at, "cluster": service} {
		tunnel := egresstest.Listen(t)
		tunnel.Lead("10.9.8.7:443", address)
		resolve := func(context.Context, string, string, int32) (string, error) { return "10.9.8.7:443", nil }
		config.Egress = tunnel.Selector(t, traffic)
		err := ask(t.Context(), t, config, resolve)
		want := address
		if traffic == "cluster" {
			want = "10.9.8.7:443"
			require.ErrorContains(t, err, "certificate", "it is reached, and has another name")
		} else {
			require.NoError(t, err)
		}
		require.Equal(t, []string{want}, tunnel.Asked())
	}
	tunnel := egresstest.Listen(t)
	at.Egress = tunnel.Selector(t, "cluster", "etcd")
	require.NoError(t, ask(t.Context(), t, at, nil))
	require.Empty(t, tunnel.Asked(), "this traffic is not selected")

	named := webhook.Config{Service: &webhook.Service{Namespace: "shop", Name: "converter"}, Egress: tunnel.Selector(t, "cluster")}
	require.ErrorContains(t, ask(t.Context(), t, named, nil), "502")
	require.Equal(t, []string{"converter.shop.svc:443"}, tunnel.Asked(), "names are those of the tunnel's network")
}

// A tunnel is not asked for what a direct connection would refuse.
func TestEGRESS_13_D6_SSRF_ATunnelIsNoWayAroundTheRules(t *testing.T) {
	tunnel := egresstest.Listen(t)
	s := tunnel.Selector(t, "cluster", "controlplane")
	for _, host := range []string{
		"169.254.169.254", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::1]", "[fe80::1]", "[ff02::1]", "[fd00:ec2::254]",
		"100.100.100.200", "168.63.129.16", "2852039166", "0xa9fea9fe", "169.254.43518", "0251.0376.0251.0376", "169.254.169.254.",
	} {
		to := func(context.Context, string, string, int32) (string, error) { return host + ":443", nil }
		service := webhook.Config{Service: &webhook.Service{Namespace: "shop", Name: "converter"}, Egress: s}
		for _, err := range []error{
			ask(t.Context(), t, service, to),
			ask(t.Context(), t, webhook.Config{URL: "https://" + host + "/", Egress: s}, nil),
		} {
			require.Error(t, err, host)
			require.Regexp(t, "are not asked|does not lead to the address", err.Error(), host)
		}
	}
	require.Empty(t, tunnel.Asked())
}

func TestEGRESS_13_TheNamesOfLoopbackAddresses(t *testing.T) {
	tunnel := egresstest.Listen(t)
	var judged []string
	dial := webhook.Dialer(tunnel.Selector(t, "cluster").Dialer(egress.Cluster), net.Dialer{}, func(a netip.Addr) error {
		judged = append(judged, a.String())
		return net.ErrClosed
	})
	for _, host := range []string{"localhost", "LocalHost.", "a.localhost", "127.0.0.1", "[::1]", "[::ffff:7f00:1]", "[::7f00:1]"} {
		judged = nil
		_, err := dial(t.Context(), "tcp", host+":443")
		require.ErrorIs(t, err, net.ErrClosed, host)
		require.Subset(t, []string{"127.0.0.1", "::1"}, judged)
	}
	require.Empty(t, tunnel.Asked())
	_, err := dial(t.Context(), "tcp", "nothing")
	require.Error(t, err)
}

// Whatever a tunnel does instead of its work, the webhook has failed, in time.
func TestEGRESS_13_X7_TunnelsThatFail(t *testing.T) {
	asked := 0
	good := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	t.Cleanup(good.Close)
	for why, answer := range map[string]func(net.Conn){
		"it answered 500":          egresstest.Say("HTTP/1.1 500 marked\r\n\r\n"),
		"its answer is not HTTP":   egresstest.Say("<html>marked"),
		"its answer has more than": egresstest.Endless,
		"egress selector":          func(net.Conn) {},
		"deadline exceeded": func(c net.Conn) {
			_, _ = io.Copy(io.Discard, c)
		},
	} {
		tunnel := egresstest.Listen(t)
		tunnel.Answer(answer)
		err := ask(t.Context(), t, webhook.Config{
			URL: good.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: good.Certificate().Raw}),
			Egress: tunnel.Selector(t, "controlplane"), Timeout: 2 * time.Second,
		}, nil)
		require.ErrorContains(t, err, why)
		require.NotContains(t, err.Error(), "marked")
	}
	require.Zero(t, asked, "nothing goes past a tunnel")
}
