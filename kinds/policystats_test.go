package kinds_test

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/internal/metrics"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage/memory"
)

// definitions serves several definitions as one. The server sees nothing else of them.
type definitions struct {
	of    []registry.Definition
	stats *kinds.PolicyStats
}

func (d definitions) Define(env registry.Env) (out registry.Bundle, err error) {
	for _, one := range d.of {
		b, err := one.Define(env)
		if err != nil {
			return out, err
		}
		out.Resources, out.Hooks, out.Plugins = append(out.Resources, b.Resources...), append(out.Hooks, b.Hooks...), append(out.Plugins, b.Plugins...)
	}
	return out, nil
}

func (d definitions) CollectMetrics(r *metrics.Registry) { d.stats.CollectMetrics(r) }

// POL-07: a definition that hides the one with the policies shows what they count.
func TestPOL_07_ChecksOfHiddenPoliciesAreCounted(t *testing.T) {
	stats := &kinds.PolicyStats{}
	all := definitions{[]registry.Definition{kinds.WithPolicies(kinds.PolicyKinds(), kinds.CountChecks(stats)), kinds.ConfigMaps()}, stats}
	h := serve(t, memory.New(), nil, kindwright.Serve(all))
	h.must(201, "POST", policiesPath, aboutConfigMaps("strict", "object.data.a == 'b'", ""))
	h.must(201, "POST", policyBindingsPath, inForce("strict", `["Deny"]`, ""))
	h.must(422, "POST", configMapsPath, configMap("x", `"a":"c"`))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, newRequest(t.Context(), "GET", "/metrics", ""))
	require.Contains(t, w.Body.String(),
		`apiserver_validating_admission_policy_check_total{policy="strict",policy_binding="strict",error_type="invalid_error",enforcement_action="deny"} 1`+"\n")
}
