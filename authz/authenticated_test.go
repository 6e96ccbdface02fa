package authz_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
)

// Everybody who has proved who they are may do everything, and sees so. Nobody else may do anything.
func TestAUTHZ_02_AllowAuthenticated(t *testing.T) {
	z := authz.AllowAuthenticated()
	for _, c := range []struct {
		u    authn.User
		want authz.Decision
	}{
		{authn.User{Name: "ann", Groups: []string{authn.GroupAuthenticated}}, authz.Allow},
		{authn.User{Name: "ann"}, authz.NoOpinion},
		{authn.User{}, authz.NoOpinion},
		{authn.User{Name: authn.UserAnonymous, Groups: []string{authn.GroupUnauthenticated}}, authz.NoOpinion},
	} {
		d, _, err := z.Authorize(t.Context(), authz.Attributes{User: c.u, Verb: "delete", Resource: "nodes"})
		require.NoError(t, err)
		require.Equal(t, c.want, d, "%v", c.u)
		rules, err := z.(authz.RuleResolver).Rules(t.Context(), c.u, "default")
		require.NoError(t, err)
		require.Equal(t, c.want == authz.Allow, len(rules.Resources) == 1 && len(rules.Paths) == 1)
	}
}
