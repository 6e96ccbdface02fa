package authz_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
)

// lister is an authorizer whose list comes from a function.
type lister struct {
	authz.Authorizer
	rules func() (authz.Rules, error)
}

func (l lister) Rules(context.Context, authn.User, string) (authz.Rules, error) { return l.rules() }

func rules(list ...string) authz.Authorizer {
	return lister{authz.AlwaysDeny(), func() (authz.Rules, error) {
		return authz.Rules{Resources: []authz.ResourceRule{{Verbs: list}}}, nil
	}}
}

var alice = authn.User{Name: "alice"}

func TestREVIEW_04_RulesOfAUnion(t *testing.T) {
	all := authz.RulesOf(t.Context(), authz.AlwaysAllow(), alice, "a")
	require.Equal(t, []authz.ResourceRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}, all.Resources)
	require.Equal(t, []authz.NonResourceRule{{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}}, all.Paths)
	require.False(t, all.Incomplete)
	require.Equal(t, authz.Rules{}, authz.RulesOf(t.Context(), authz.AlwaysDeny(), alice, "a"))
	require.Equal(t, authz.Rules{}, authz.RulesOf(t.Context(), authz.Masters(), alice, "a"))
	none, err := authz.AllowPaths()
	require.NoError(t, err)
	require.Equal(t, authz.Rules{}, authz.RulesOf(t.Context(), authz.Union(none), alice, "a"))

	joined := authz.RulesOf(t.Context(), authz.Union(rules("get"), rules("list")), alice, "a")
	require.Equal(t, authz.Rules{Resources: []authz.ResourceRule{{Verbs: []string{"get"}}, {Verbs: []string{"list"}}}}, joined)
	joined = authz.RulesOf(t.Context(), authz.Union(authz.AlwaysAllow(), rules("list"), answer(authz.Allow, "", nil)), alice, "a")
	require.Equal(t, all, joined, "nothing can be added to everything")
	joined = authz.RulesOf(t.Context(), authz.Union(answer(authz.Deny, "", nil), authz.AlwaysAllow()), alice, "a")
	require.True(t, joined.Incomplete)
	joined = authz.RulesOf(t.Context(), authz.Union(rules("get"), authz.AlwaysDeny(), rules("list")), alice, "a")
	require.Equal(t, authz.Rules{Resources: []authz.ResourceRule{{Verbs: []string{"get"}}}}, joined, "authorizers after one that denies everything are not asked")
}

func TestREVIEW_04_FailingResolvers(t *testing.T) {
	failing := lister{authz.AlwaysAllow(), func() (authz.Rules, error) { return rulesOfEverything(t), errors.New("secret reason") }}
	broken := lister{authz.AlwaysAllow(), func() (authz.Rules, error) { panic("secret reason") }}
	const cannot, failed = "an authorizer of the server cannot list what it allows", "an authorizer of the server failed to list what it allows"
	for name, c := range map[string]struct {
		z   authz.Authorizer
		why string
	}{
		"no resolver": {answer(authz.Allow, "", nil), cannot},
		"nil":         {nil, cannot},
		"error":       {failing, failed},
		"panic":       {broken, failed},
		"union":       {authz.Union(answer(authz.Allow, "", nil), broken, answer(authz.Allow, "", nil)), cannot + "; " + failed},
	} {
		require.Equal(t, authz.Rules{Incomplete: true, Why: c.why}, authz.RulesOf(t.Context(), c.z, alice, "a"), name)
	}
	partly := authz.RulesOf(t.Context(), authz.Union(broken, rules("get")), alice, "a")
	require.True(t, partly.Incomplete)
	require.Len(t, partly.Resources, 1)
	s := authz.Rules{Incomplete: true, Why: cannot}.Status()
	require.NotNil(t, s.ResourceRules)
	require.NotNil(t, s.NonResourceRules)
	require.Equal(t, cannot, s.EvaluationError)
}

func rulesOfEverything(t *testing.T) authz.Rules {
	t.Helper()
	return authz.RulesOf(t.Context(), authz.AlwaysAllow(), alice, "")
}

func TestREVIEW_01_Z10_AReviewFailsClosed(t *testing.T) {
	for name, z := range map[string]authz.Authorizer{
		"error": answer(authz.Allow, "because", errors.New("secret reason")), "panic": panics(), "unknown": answer(authz.Decision(7), "because", nil),
	} {
		s := authz.Review(t.Context(), z, widget)
		require.Equal(t, authz.AccessReviewStatus{Denied: true, EvaluationError: "the authorizer failed; nothing is allowed"}, s, name)
	}
	require.Equal(t, authz.AccessReviewStatus{Reason: "rule 3"}, authz.Review(t.Context(), answer(authz.NoOpinion, "rule 3", nil), widget))
}
