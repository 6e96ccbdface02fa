package kinds_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A webhook may deny a deletion with the words of an error that it got itself, such as "not found". That
// says nothing about the object.
func TestNS_06_WHK_13_AWebhookThatSaysNotFound(t *testing.T) {
	onWebhooks(t, func(t *testing.T, h *host) {
		var yields atomic.Bool
		hook := newHook(t, func(r map[string]any) any {
			if r["operation"] != "DELETE" || yields.Load() {
				return admits(nil)(r)
			}
			return admits(map[string]any{"allowed": false, "status": map[string]any{
				"code": 404, "reason": "NotFound", "message": `owners.example.com "bob" not found`,
			}})(r)
		})
		h.must(201, "POST", validatingHooksPath, configuration("a", hook.webhook("a.example.com", "")))
		h.must(201, "POST", "/api/v1/namespaces", `{"metadata":{"name":"held"}}`)
		const inside = "/api/v1/namespaces/held/configmaps"
		h.must(201, "POST", inside, configMap("one", `"a":"1"`))

		h.must(200, "DELETE", "/api/v1/namespaces/held", "")
		require.Eventually(t, func() bool {
			code, ns := h.do("GET", "/api/v1/namespaces/held", "")
			require.Equal(t, 200, code, "the namespace still has an object")
			conditions, _ := at(ns, "status", "conditions").([]any)
			for _, c := range conditions {
				if at(c, "type") == "NamespaceDeletionContentFailure" && at(c, "status") == "True" {
					return true
				}
			}
			return false
		}, time.Minute, 10*time.Millisecond)
		h.must(200, "GET", inside+"/one", "")
		yields.Store(true)
		require.Eventually(t, func() bool {
			code, _ := h.do("GET", "/api/v1/namespaces/held", "")
			return code == 404
		}, time.Minute, 10*time.Millisecond)
	})
}
