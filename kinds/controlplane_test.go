package kinds_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage/memory"
)

func TestControlPlaneTakesTheOptionsOfItsKinds(t *testing.T) {
	options := []kinds.ControlPlaneOption{
		kinds.InitialNamespaces("team", "other"), kinds.ProtectedNamespaces("team"), kinds.EventTTL(time.Minute), kinds.StrictEventRules(),
	}
	h := serve(t, memory.New(), options)
	h.must(404, "GET", "/api/v1/namespaces/default", "")
	h.must(200, "GET", "/api/v1/namespaces/other", "")
	h.must(403, "DELETE", "/api/v1/namespaces/team", "")
	h.must(200, "DELETE", "/api/v1/namespaces/other", "")

	b, err := kinds.ControlPlane(options...).Define(registry.Env{GroupDomain: "k8s.io", Authenticator: authn.Anonymous(), Authorizer: authz.AlwaysAllow()})
	require.NoError(t, err)
	found := 0
	for _, r := range b.Resources {
		if r.Names.Kind == "Event" {
			found++
			require.Equal(t, time.Minute, r.Writes.TTL)
		}
	}
	require.Equal(t, 2, found)
	_, err = kinds.ControlPlane(kinds.EventTTL(-1)).Define(registry.Env{GroupDomain: "k8s.io", Authenticator: authn.Anonymous(), Authorizer: authz.AlwaysAllow()})
	require.ErrorContains(t, err, "time to live")
}

// A wrapper without a definition says which one it is.
func TestWrappersOfNothingAreRefused(t *testing.T) {
	for want, d := range map[string]registry.Definition{
		"kinds.WithRBAC: the definition is nil":        kinds.WithRBAC(kinds.RBACOptions{}, nil),
		"kinds.WithPolicies: the definition is nil":    kinds.WithPolicies(nil),
		"kinds.WithWebhooks: the definition is nil":    kinds.WithWebhooks(kinds.WebhookOptions{}, nil),
		"kinds.WithFlowControl: the definition is nil": kinds.WithFlowControl(nil),
	} {
		_, err := d.Define(registry.Env{GroupDomain: "k8s.io"})
		require.EqualError(t, err, want)
	}
	_, err := kinds.ControlPlane(nil).Define(registry.Env{GroupDomain: "k8s.io", Authenticator: authn.Anonymous(), Authorizer: authz.AlwaysAllow()})
	require.NoError(t, err, "no option is none")
}
