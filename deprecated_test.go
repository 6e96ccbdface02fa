package kindwright_test

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/audit"
	"github.com/kindwright/kindwright/registry"
)

// Kubernetes tells operators who still uses a version that will go: by a metric
// (TestAPIServerMetrics), and by annotations of audit records. A version that is deprecated later is
// like any other.
func TestVER_17_UsesOfDeprecatedVersionsAreRecorded(t *testing.T) {
	kind := func(name string, d *registry.Deprecation) registry.Kind[gadget] {
		names := registry.Names{Kind: name}
		return registry.Kind[gadget]{Group: "old.dev", Version: "v1beta1", Plural: strings.ToLower(name) + "s", Names: names, Serving: registry.Serving{Deprecated: d}}
	}
	m := &memo{t: t}
	h := run(t, kindwright.Audit(everything(), m), kindwright.Serve(
		kind("Lamp", &registry.Deprecation{Since: "1.20", Removed: "1.40"}), kind("Candle", &registry.Deprecation{}),
		kind("Torch", &registry.Deprecation{Since: "9.99", Removed: "9.100"}), kind("Other", &registry.Deprecation{}),
	))
	annotations := func(method, path, body string, code int, headers ...string) map[string]string {
		res := h.request(method, path, body, headers...)
		require.Equal(t, code, res.StatusCode, path)
		events := m.of(res.Header.Get("Audit-Id"), audit.StageResponseComplete)
		require.NotContains(t, events[0].Annotations, "k8s.io/deprecated", "it is not carried out yet")
		out := map[string]string{}
		for _, name := range []string{"k8s.io/deprecated", "k8s.io/removed-release"} {
			if value, ok := events[len(events)-1].Annotations[name]; ok {
				out[name] = value
			}
		}
		return out
	}
	const lamps = "/apis/old.dev/v1beta1/namespaces/default/lamps"
	require.Equal(t, map[string]string{"k8s.io/deprecated": "true", "k8s.io/removed-release": "1.40"}, annotations("POST", lamps, `{"metadata":{"name":"a"}}`, 201))
	require.Equal(t, map[string]string{"k8s.io/deprecated": "true"}, annotations("GET", "/apis/old.dev/v1beta1/candles", "", 200))
	require.Empty(t, annotations("GET", "/apis/old.dev/v1beta1/torchs", "", 200))
	require.Empty(t, annotations("GET", "/apis/old.dev/v1beta1/others", "", 403, "X-User", "bob", "X-Groups", ""), "a request that is refused uses nothing")
	require.Empty(t, annotations("GET", gadgetPath, "", 200))

	res := h.request("GET", "/metrics", "")
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	const family = "apiserver_requested_deprecated_apis{group=\"old.dev\",version=\"v1beta1\",resource="
	require.Contains(t, string(text), family+`"lamps",subresource="",removed_release="1.40"} 1`)
	require.Contains(t, string(text), family+`"candles",subresource="",removed_release=""} 1`)
	require.NotContains(t, string(text), family+`"torchs"`)
	require.NotContains(t, string(text), family+`"others"`)
}
