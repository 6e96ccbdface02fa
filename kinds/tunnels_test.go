package kinds_test

import (
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/egress/egresstest"
	"github.com/kindwright/kindwright/storage/memory"
)

// text returns an answer that is not JSON.
func text(h *host, path string) string {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, newRequest(h.t.Context(), "GET", path, ""))
	return w.Body.String()
}

func TestEGRESS_13_TheTunnelServerSeesConnectsForWebhooks(t *testing.T) {
	tunnel := egresstest.Listen(t)
	h := serveWebhooks(t, memory.New(), kindwright.Egress(tunnel.Selector(t, "controlplane")))
	hook := newHook(t, admits(nil))
	h.must(201, "POST", validatingHooksPath, configuration("a", hook.webhook("all.example.com", "")))
	h.must(201, "POST", mutatingHooksPath, configuration("b", hook.webhook("more.example.com", "")))
	h.must(201, "POST", configMapsPath, configMap("one", `"a":"1"`))
	require.Len(t, hook.asked(), 2)
	for _, asked := range tunnel.Asked() {
		require.Equal(t, strings.TrimPrefix(hook.URL, "https://"), asked)
	}
	require.NotEmpty(t, tunnel.Asked())
	require.Contains(t, text(h, "/metrics"), `apiserver_egress_dialer_dial_start_total{protocol="http_connect",transport="uds"}`)
}

// EGRESS-13, WHK-09: a tunnel that fails is a webhook that fails. Its policy decides, and nothing is reached
// without the tunnel.
func TestEGRESS_13_ATunnelThatFailsIsAWebhookThatFails(t *testing.T) {
	for why, answer := range map[string]func(net.Conn){
		"closes":  func(net.Conn) {},
		"mute":    func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
		"refuses": egresstest.Say("HTTP/1.1 403 Forbidden\r\n\r\n"),
		"html":    egresstest.Say("<html>"),
		"endless": egresstest.Endless,
	} {
		tunnel := egresstest.Listen(t)
		tunnel.Answer(answer)
		h := serveWebhooks(t, memory.New(), kindwright.Egress(tunnel.Selector(t, "controlplane")))
		hook := newHook(t, admits(nil))
		h.must(201, "POST", validatingHooksPath, configuration("a", hook.webhook("all.example.com", `,"timeoutSeconds":1`)))
		refused := h.must(500, "POST", configMapsPath, configMap("one", `"a":"1"`))
		require.Contains(t, refused["message"], `failed calling webhook "all.example.com"`, why)
		if why != "mute" {
			require.Contains(t, refused["message"], `egress selector "controlplane": the tunnel server `+tunnel.Address, why)
		}
		h.must(200, "DELETE", validatingHooksPath+"/a", "")
		h.must(201, "POST", validatingHooksPath, configuration("a", hook.webhook("all.example.com", `,"timeoutSeconds":1,"failurePolicy":"Ignore"`)))
		h.must(201, "POST", configMapsPath, configMap("one", `"a":"1"`))
		require.Empty(t, hook.asked(), why)
	}
}

// Connections end with their tunnel, and no new ones are made past it.
func TestEGRESS_13_ATunnelThatEnds(t *testing.T) {
	tunnel := egresstest.Listen(t)
	h := serveWebhooks(t, memory.New(), kindwright.Egress(tunnel.Selector(t, "controlplane")))
	hook := newHook(t, admits(nil))
	h.must(201, "POST", validatingHooksPath, configuration("a", hook.webhook("all.example.com", "")))
	h.must(201, "POST", configMapsPath, configMap("one", `"a":"1"`))
	tunnel.Close()
	require.Eventually(t, func() bool {
		code, _ := h.do("POST", configMapsPath+"?dryRun=All", configMap("two", ""))
		return code == 500
	}, time.Minute, 10*time.Millisecond)
}
