package authn_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/effort"
)

func review(t *testing.T, a authn.Authenticator, token string, audiences ...string) authn.TokenReviewStatus {
	t.Helper()
	return authn.ReviewToken(t.Context(), a, authn.TokenReviewSpec{Token: token, Audiences: audiences})
}

func TestREVIEW_06_WhoseTokenItIs(t *testing.T) {
	chain := authn.Union(tokens(map[string]string{"good": "alice"}), authn.Anonymous())
	require.Equal(t, authn.TokenReviewStatus{Authenticated: true, User: authn.UserInfo{Username: "alice", Groups: []string{"system:authenticated"}}}, review(t, chain, "good"))
	for _, token := range []string{"bad", "", "good ", "a b"} {
		s := review(t, chain, token)
		require.False(t, s.Authenticated, token)
		require.Empty(t, s.User, token)
		require.NotEmpty(t, s.Error)
	}
}

// Only a named user found in the token counts as authenticated, whatever else an authenticator
// returns.
func TestREVIEW_06_FailsClosed(t *testing.T) {
	for name, a := range map[string]authn.Authenticator{
		"refuses":   authn.Union(),
		"no name":   accept(""),
		"anonymous": accept(authn.UserAnonymous),
		"error with a user": authn.Func(func(*http.Request) (authn.User, bool, error) {
			return authn.User{Name: "alice"}, true, errors.New("revoked: good")
		}),
	} {
		s := review(t, a, "good")
		require.Equal(t, authn.TokenReviewStatus{Error: "invalid bearer token"}, s, name)
	}
}

func TestREVIEW_06_TheAuthenticatorSeesTheTokenAlone(t *testing.T) {
	type key struct{}
	ctx := authn.WithUser(context.WithValue(t.Context(), key{}, "x"), authn.User{Name: "caller"})
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	asked := false
	authn.ReviewToken(ctx, authn.Func(func(r *http.Request) (authn.User, bool, error) {
		asked = true
		require.Nil(t, r.Context().Value(key{}))
		_, ok := authn.UserFrom(r.Context())
		require.False(t, ok)
		_, ok = authn.AudiencesFrom(r.Context())
		require.False(t, ok)
		_, ok = r.Context().Deadline()
		require.True(t, ok, "who asks does not wait for longer")
		require.Nil(t, r.TLS)
		require.Equal(t, http.Header{"Authorization": {"Bearer good"}}, r.Header)
		return authn.User{}, false, nil
	}), authn.TokenReviewSpec{Token: "good"})
	require.True(t, asked)
}

func TestREVIEW_06_AudiencesAreVouchedFor(t *testing.T) {
	meantFor := func(audiences ...string) authn.Authenticator {
		return authn.Func(func(r *http.Request) (authn.User, bool, error) {
			asked, ok := authn.AudiencesFrom(r.Context())
			require.True(t, ok)
			require.Equal(t, []string{"a", "b"}, asked)
			return authn.User{Name: "alice", Audiences: audiences}, true, nil
		})
	}
	require.Equal(t, []string{"b"}, review(t, meantFor("b", "c"), "good", "a", "b").Audiences)
	own := func(a authn.Authenticator, asked []string, own ...string) authn.TokenReviewStatus {
		return authn.ReviewToken(t.Context(), a, authn.TokenReviewSpec{Token: "good", Audiences: asked}, own...)
	}
	asked := []string{"a", "b"}
	require.Equal(t, []string{"b"}, own(meantFor(), asked, "b", "c").Audiences, "a token without audiences is for the server")
	require.False(t, own(meantFor(), asked, "c").Authenticated)
	require.False(t, own(meantFor("c"), asked, "b", "c").Authenticated, "one with others is not")
	require.Equal(t, []string{"c"}, own(accept("ann"), nil, "c").Audiences, "and who asks for none is told those of the server")
	of := func(audiences ...string) authn.Authenticator {
		return authn.Func(func(*http.Request) (authn.User, bool, error) {
			return authn.User{Name: "ann", Audiences: audiences}, true, nil
		})
	}
	require.Equal(t, []string{"b"}, own(of("b", "x"), nil, "b", "c").Audiences)
	require.Equal(t, []string{"c"}, own(of("x"), nil, "c").Audiences)
	require.Empty(t, own(of("x"), nil).Audiences)
	for _, s := range []authn.TokenReviewStatus{review(t, meantFor(), "good", "a", "b"), review(t, meantFor("A", "ab"), "good", "a", "b")} {
		require.False(t, s.Authenticated)
		require.Empty(t, s.User)
	}
}

// S22: the audiences of a token and those of a review are not compared in pairs.
func TestS22_ManyAudiencesAreComparedOnce(t *testing.T) {
	named := func(prefix string) (out []string) {
		for i := range effort.Of(400_000) {
			out = append(out, prefix+strconv.Itoa(i))
		}
		return append(out, "both")
	}
	a := authn.Func(func(r *http.Request) (authn.User, bool, error) {
		asked, _ := authn.AudiencesFrom(r.Context())
		return authn.User{Name: "ann", Audiences: authn.MatchingAudiences(named("a"), asked)}, true, nil
	})
	require.Equal(t, []string{"both"}, review(t, a, "good", named("b")...).Audiences)
	require.Equal(t, []string{"both"}, authn.ReviewToken(t.Context(), authn.Func(func(*http.Request) (authn.User, bool, error) {
		return authn.User{Name: "ann", Audiences: named("a")}, true, nil
	}), authn.TokenReviewSpec{Token: "good", Audiences: named("b")}).Audiences)
}
