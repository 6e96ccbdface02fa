package kindwright_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
)

// deputies lets boss act as alice and list gadgets as bob. Alice may do everything, bob may list
// gadgets, nobody else may do anything.
func deputies(t *testing.T, opts ...kindwright.Option) (h *host, revoked *atomic.Bool, seen <-chan kindwright.Request) {
	t.Helper()
	revoked = &atomic.Bool{}
	requests := make(chan kindwright.Request, 100)
	z := authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		if a.User.Name == "alice" || a.User.Name == "bob" && a.Verb == "list" {
			return authz.Allow, "", nil
		}
		if revoked.Load() || a.User.Name != "boss" {
			return authz.NoOpinion, "", nil
		}
		switch strings.TrimSuffix(a.Verb+" "+a.Group+"/"+a.Resource+" "+a.Name, " ") {
		case "impersonate /users alice", "impersonate /groups dev", "impersonate authentication.k8s.io/uids 7", "impersonate authentication.k8s.io/userextras x",
			"impersonate-on:user-info:list example.dev/gadgets", "impersonate:user-info authentication.k8s.io/users bob":
			return authz.Allow, "", nil
		}
		return authz.NoOpinion, "", nil
	})
	look := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r)
			requests <- kindwright.RequestFrom(r.Context())
		})
	}
	return run(t, append(opts, kindwright.Authorize(z), kindwright.Before("recover", look))...), revoked, requests
}

const reviewPath = "/apis/authentication.k8s.io/v1/selfsubjectreviews"

func TestIMP_01_IMP_05_TheServerKnowsBothUsers(t *testing.T) {
	h, _, seen := deputies(t)
	code, got := h.as("boss", "POST", reviewPath, `{}`, "Impersonate-User", "alice", "Impersonate-Group", "dev", "Impersonate-Uid", "7", "Impersonate-Extra-Acme%2fscope", "x")
	require.Equal(t, 201, code, got)
	require.Equal(t, map[string]any{
		"username": "alice", "uid": "7", "groups": []any{"dev", "system:authenticated"}, "extra": map[string]any{"acme/scope": []any{"x"}},
	}, field(got, "status", "userInfo"))
	r := <-seen
	require.Equal(t, "boss", r.User.Name)
	require.Equal(t, "alice", r.Impersonated.Name)
	require.Empty(t, r.Constraint)
	require.Equal(t, authz.Allow, r.Decision)
	var asked []string
	for _, d := range r.SideDecisions {
		require.Equal(t, "boss", d.User.Name)
		asked = append(asked, d.Verb+" "+d.Resource+" "+d.Decision.String())
	}
	require.Equal(t, []string{
		"impersonate-on:user-info:create selfsubjectreviews deny",
		"impersonate users allow", "impersonate uids allow", "impersonate groups allow", "impersonate userextras allow",
	}, asked)

	code, _ = h.as("alice", "GET", gadgetPath, "")
	require.Equal(t, 200, code)
	require.Empty(t, (<-seen).Impersonated.Name)
}

func TestIMP_02_TheRightsOfTheImpersonatedUserCount(t *testing.T) {
	h, _, seen := deputies(t)
	for name, c := range map[string]struct {
		user, verb, path string
		headers          []string
		code             int
		message          string
	}{
		"allowed":            {"boss", "POST", gadgetPath, []string{"Impersonate-User", "alice"}, 201, ""},
		"constrained":        {"boss", "GET", gadgetPath, []string{"Impersonate-User", "bob"}, 200, ""},
		"not for that":       {"boss", "DELETE", gadgetPath, []string{"Impersonate-User", "bob"}, 403, `cannot impersonate-on:user-info:deletecollection resource "gadgets"`},
		"not them":           {"boss", "GET", gadgetPath, []string{"Impersonate-User", "carol"}, 403, `users.authentication.k8s.io "carol" is forbidden`},
		"not that group":     {"boss", "POST", gadgetPath, []string{"Impersonate-User", "alice", "Impersonate-Group", "system:masters"}, 403, "cannot impersonate"},
		"not by anybody":     {"mallory", "GET", gadgetPath, []string{"Impersonate-User", "alice"}, 403, `User "mallory" cannot impersonate`},
		"not by themselves":  {"boss", "GET", gadgetPath, nil, 403, `User "boss" cannot list`},
		"no user":            {"boss", "GET", gadgetPath, []string{"Impersonate-Group", "system:masters"}, 400, "without impersonating a user name"},
		"no credential":      {"", "GET", gadgetPath, []string{"Impersonate-User", "alice"}, 403, `User "system:anonymous" cannot impersonate`},
		"of somebody unseen": {"boss", "GET", gadgetPath, []string{"Impersonate-User", "a\tb"}, 400, "characters that do not show"},
	} {
		body := ""
		if c.verb == "POST" {
			body = `{"metadata":{"generateName":"a-"}}`
		}
		code, got := h.as(c.user, c.verb, c.path, body, c.headers...)
		require.Equal(t, c.code, code, "%s: %v", name, got)
		if c.message != "" {
			require.Contains(t, got["message"], c.message, name)
		}
		if r := <-seen; name == "constrained" {
			require.Equal(t, "impersonate:user-info", r.Constraint)
		}
	}
}

func TestVER_05_ConstrainedImpersonationHasAGate(t *testing.T) {
	h, _, _ := deputies(t, kindwright.Kubernetes{FeatureGates: "ConstrainedImpersonation=false"})
	code, got := h.as("boss", "GET", gadgetPath, "", "Impersonate-User", "bob")
	require.Equal(t, 403, code)
	require.Contains(t, got["message"], `users "bob" is forbidden: User "boss" cannot impersonate resource "users" in API group "" at the cluster scope`)
	code, _ = h.as("boss", "GET", gadgetPath, "", "Impersonate-User", "alice")
	require.Equal(t, 200, code)
}

// S5: a watch ends when the sender may no longer act as the user, although that user still may.
func TestS5_AWatchEndsWithTheRightToImpersonate(t *testing.T) {
	h, revoked, _ := deputies(t)
	res := h.request("GET", gadgetPath+"?watch=1", "", "X-User", "boss", "X-Groups", "", "Impersonate-User", "alice")
	require.Equal(t, 200, res.StatusCode)
	h.Recheck()
	revoked.Store(true)
	h.Recheck()
	_, err := io.ReadAll(res.Body)
	require.NoError(t, err, "the watch ends in order")
	code, _ := h.as("boss", "GET", gadgetPath, "", "Impersonate-User", "alice")
	require.Equal(t, 403, code)
}

// A middleware in front of the link that names another sender is believed, as behind authentication
// anywhere.
func TestAMiddlewareMayNameTheImpersonator(t *testing.T) {
	name := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(authn.WithUser(r.Context(), authn.User{Name: "boss"})))
		})
	}
	h, _, seen := deputies(t, kindwright.Before("impersonate", name))
	code, got := h.as("proxy", "POST", reviewPath, `{}`, "Impersonate-User", "alice")
	require.Equal(t, 201, code)
	require.Equal(t, "alice", field(got, "status", "userInfo", "username"))
	r := <-seen
	require.Equal(t, "proxy", r.User.Name)
	require.Equal(t, "alice", r.Impersonated.Name)

	watch := h.request("GET", gadgetPath+"?watch=1", "", "X-User", "proxy", "X-Groups", "", "Impersonate-User", "alice")
	require.Equal(t, 200, watch.StatusCode)
	h.Recheck()
	code, _ = h.as("proxy", "POST", gadgetPath, `{"metadata":{"name":"still-open"}}`, "Impersonate-User", "alice")
	require.Equal(t, 201, code)
	_, err := watch.Body.Read(make([]byte, 1))
	require.NoError(t, err)
}

// The metrics of impersonation have the names and labels that Kubernetes' have.
func TestImpersonationIsCounted(t *testing.T) {
	h, _, _ := deputies(t)
	for range 2 {
		h.as("boss", "GET", gadgetPath, "", "Impersonate-User", "bob")
	}
	h.as("boss", "GET", gadgetPath, "", "Impersonate-User", "alice")
	h.as("boss", "DELETE", gadgetPath, "", "Impersonate-User", "bob")
	text, err := io.ReadAll(h.request("GET", "/metrics", "").Body)
	require.NoError(t, err)
	for _, line := range []string{
		`attempts_total{decision="allowed",mode="user-info"} 2`,
		`attempts_total{decision="allowed",mode="legacy"} 1`,
		`attempts_total{decision="denied",mode=""} 1`,
		`attempts_duration_seconds_count{decision="allowed",mode="user-info"} 2`,
		`authorization_attempts_total{decision="allowed",mode="user-info"} 5`,
		`authorization_attempts_total{decision="allowed",mode="legacy"} 1`,
		`authorization_attempts_duration_seconds_bucket{decision="allowed",mode="legacy",le="+Inf"} 1`,
	} {
		require.Contains(t, string(text), "\napiserver_impersonation_"+line+"\n")
	}
}
