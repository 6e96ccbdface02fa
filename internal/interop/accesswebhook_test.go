package interop

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/authentication"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authn/webhook"
)

// A webhook that controller-runtime serves understands our TokenReviews, in both versions.
func TestAUTHN_09_10_ControllerRuntimeAuthenticatesTokens(t *testing.T) {
	backend := httptest.NewServer(&authentication.Webhook{Handler: authentication.HandlerFunc(func(_ context.Context, r authentication.Request) authentication.Response {
		if r.Spec.Token != "good" {
			return authentication.Unauthenticated("", authenticationv1.UserInfo{})
		}
		return authentication.ReviewResponse(true, authenticationv1.UserInfo{
			Username: "alice", UID: "u1", Groups: []string{"ops"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}},
		}, "", r.Spec.Audiences...)
	})})
	defer backend.Close()
	for _, version := range []string{"v1", "v1beta1"} {
		a, err := webhook.New(webhook.Connection{URL: backend.URL}, webhook.Options{Version: version, Audiences: []string{"api"}})
		require.NoError(t, err)
		ask := func(token string) (authn.User, bool) {
			r := httptest.NewRequest("GET", "/", nil)
			r.Header.Set("Authorization", "Bearer "+token)
			u, ok, err := a.Authenticate(r)
			require.NoError(t, err)
			return u, ok
		}
		u, ok := ask("good")
		require.True(t, ok)
		require.Equal(t, authn.User{
			Name: "alice", UID: "u1", Groups: []string{"ops"}, Extra: map[string][]string{"k": {"v"}}, Audiences: []string{"api"}, Method: "webhook",
		}, u)
		_, ok = ask("bad")
		require.False(t, ok)
	}
}
