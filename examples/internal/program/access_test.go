package program

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/selfsigned"
	"github.com/kindwright/kindwright/meta"
)

const selfReviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews"

// whoami asks the server who the client is.
func whoami(t *testing.T, c *client) authn.UserInfo {
	t.Helper()
	a := c.do(t, http.MethodPost, selfReviews, `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`)
	require.Equal(t, http.StatusCreated, a.code, "%s", a.body)
	var review authn.SelfSubjectReview
	require.NoError(t, json.Unmarshal(a.body, &review))
	return review.Status.UserInfo
}

func TestAUTHN_22_TokenFileAuthenticates(t *testing.T) {
	tokens := writeTo(t, t.TempDir(), "tokens.csv", "wonderland,alice,u-1,\"devs,testers\"\nroot-token,root,u-0,system:masters\n")
	s := serveIn(t, t.TempDir(), "--token-auth-file="+tokens, "--authorization-mode=AlwaysAllow")
	nobody := anonymous(t, s.kubeconfig)

	alice := nobody.with("wonderland")
	user := whoami(t, alice)
	assert.Equal(t, "alice", user.Username)
	assert.Equal(t, "u-1", user.UID)
	assert.Equal(t, []string{"devs", "testers", "system:authenticated"}, user.Groups)
	alice.create(t, widgetsPath, widget("hers"))
	assert.Equal(t, "root", whoami(t, nobody.with("root-token")).Username)
	assert.Equal(t, "admin", whoami(t, admin(t, s.kubeconfig)).Username, "the certificate works beside tokens")

	a := nobody.with("wonderlan").do(t, "GET", widgetsPath, "")
	assert.Equal(t, http.StatusUnauthorized, a.code)
	assert.Equal(t, meta.ReasonUnauthorized, a.status(t).Reason)
	assert.Equal(t, http.StatusUnauthorized, nobody.with("wonderlan").do(t, "GET", "/healthz", "").code, "AUTHN-03")
}

func TestAUTHN_06_ClientAuthorityAuthenticates(t *testing.T) {
	theirs, err := selfsigned.NewAuthority("theirs")
	require.NoError(t, err)
	pair, err := theirs.Client("bob", "ops", "devs")
	require.NoError(t, err)
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	require.NoError(t, err)
	file := writeTo(t, t.TempDir(), "clients.crt", string(theirs.PEM()))

	t.Run("when it is given", func(t *testing.T) {
		s := serveIn(t, t.TempDir(), "--client-ca-file="+file)
		user := whoami(t, newClient(t, readKubeconfig(t, s.kubeconfig), &cert))
		assert.Equal(t, "bob", user.Username)
		groups := slices.Sorted(slices.Values(user.Groups))
		assert.Equal(t, []string{"devs", "ops", "system:authenticated"}, groups)
		assert.Equal(t, "admin", whoami(t, admin(t, s.kubeconfig)).Username, "the server's own authority still counts")
	})
	t.Run("and not otherwise", func(t *testing.T) {
		s := serveIn(t, t.TempDir())
		a := newClient(t, readKubeconfig(t, s.kubeconfig), &cert).do(t, "GET", "/healthz", "")
		assert.Equal(t, http.StatusUnauthorized, a.code)
		assert.Equal(t, "Unauthorized", a.status(t).Message)
	})
	t.Run("nor does one server know the administrator of another", func(t *testing.T) {
		one, other := serveIn(t, t.TempDir()), serveIn(t, t.TempDir())
		c := readKubeconfig(t, one.kubeconfig)
		foreign, err := tls.X509KeyPair(c.Users[0].User.Cert, c.Users[0].User.Key)
		require.NoError(t, err)
		a := newClient(t, readKubeconfig(t, other.kubeconfig), &foreign).do(t, "GET", widgetsPath, "")
		assert.Equal(t, http.StatusUnauthorized, a.code)
	})
}

func TestAUTHZ_01_03_16_Modes(t *testing.T) {
	tokens := writeTo(t, t.TempDir(), "tokens.csv", "user-token,carol,u-2,devs\nmaster-token,dave,u-3,\"devs,system:masters\"\n")
	for _, c := range []struct {
		mode string
		code int // for those who are not masters
	}{
		{"AlwaysAllow", http.StatusOK},
		{"AlwaysDeny", http.StatusForbidden},
		{"AlwaysAllow,AlwaysDeny", http.StatusOK},
		{"AlwaysDeny,AlwaysAllow", http.StatusForbidden},
		{"RBAC", http.StatusForbidden},
		{"RBAC,AlwaysAllow", http.StatusOK},
		{"RBAC,AlwaysDeny", http.StatusForbidden},
	} {
		t.Run(c.mode, func(t *testing.T) {
			s := serveIn(t, t.TempDir(), "--token-auth-file="+tokens, "--authorization-mode="+c.mode)
			nobody := anonymous(t, s.kubeconfig)
			a := nobody.with("user-token").do(t, "GET", widgetsPath, "")
			assert.Equal(t, c.code, a.code, "%s", a.body)
			if c.code == http.StatusForbidden {
				st := a.status(t)
				assert.Equal(t, meta.ReasonForbidden, st.Reason)
				assert.Contains(t, st.Message, `User "carol" cannot list resource "widgets" in API group "example.dev" in the namespace "default"`)
			}
			assert.Equal(t, http.StatusOK, nobody.with("master-token").do(t, "GET", widgetsPath, "").code)
			assert.Equal(t, http.StatusOK, admin(t, s.kubeconfig).do(t, "GET", widgetsPath, "").code)
			assert.Equal(t, http.StatusForbidden, nobody.do(t, "GET", widgetsPath, "").code)
		})
	}
}

// A role that is granted counts at once, and no longer when it is revoked. Roles outlive the process.
func TestRBAC_RolesCount(t *testing.T) {
	const bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
	dir := t.TempDir()
	tokens := writeTo(t, t.TempDir(), "tokens.csv", "user-token,carol,u-2,devs\n")
	flags := []string{"--token-auth-file=" + tokens, "--authorization-mode=RBAC"}
	s := serveIn(t, dir, flags...)
	boss, carol := admin(t, s.kubeconfig), anonymous(t, s.kubeconfig).with("user-token")
	assert.Equal(t, "carol", whoami(t, carol).Username, "everybody may ask who they are")
	a := boss.do(t, "POST", bindings, `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"devs"},
		"roleRef":{"kind":"ClusterRole","name":"example.dev:view"},"subjects":[{"kind":"Group","name":"devs"}]}`)
	require.Equal(t, http.StatusCreated, a.code, "%s", a.body)
	assert.Equal(t, http.StatusOK, carol.do(t, "GET", widgetsPath, "").code)
	assert.Equal(t, http.StatusForbidden, carol.do(t, "DELETE", widgetsPath, "").code)
	assert.Equal(t, http.StatusForbidden, carol.do(t, "GET", bindings, "").code)
	require.Zero(t, s.stop())

	s = serveIn(t, dir, flags...)
	boss, carol = admin(t, s.kubeconfig), anonymous(t, s.kubeconfig).with("user-token")
	assert.Equal(t, http.StatusOK, carol.do(t, "GET", widgetsPath, "").code)
	assert.Equal(t, http.StatusOK, boss.do(t, "DELETE", bindings+"/devs", "").code)
	assert.Equal(t, http.StatusForbidden, carol.do(t, "GET", widgetsPath, "").code)
}

func TestHEALTH_21_AnonymousClientsGetHealthAlone(t *testing.T) {
	t.Run("by default", func(t *testing.T) {
		s := serveIn(t, t.TempDir())
		assert.Equal(t, http.StatusOK, anonymous(t, s.kubeconfig).do(t, "GET", "/version", "").code, "the role system:public-info-viewer")
		getsHealthAlone(t, s)
	})
	t.Run("where all known callers may do everything", func(t *testing.T) {
		s := serveIn(t, t.TempDir(), "--authorization-mode=AlwaysAllow")
		assert.Equal(t, http.StatusForbidden, anonymous(t, s.kubeconfig).do(t, "GET", "/version", "").code)
		getsHealthAlone(t, s)
	})
}

func getsHealthAlone(t *testing.T, s *server) {
	t.Helper()
	nobody := anonymous(t, s.kubeconfig)
	for _, path := range []string{"/healthz", "/livez", "/readyz", "/readyz?verbose"} {
		a := nobody.do(t, "GET", path, "")
		assert.Equal(t, http.StatusOK, a.code, "%s: %s", path, a.body)
	}
	for _, path := range []string{
		"/readyz/ping", "/healthz/etcd", "/", "/api", "/apis", "/api/v1", "/apis/example.dev", "/apis/example.dev/v1",
		"/openapi/v3", "/openapi/v3/apis/example.dev/v1", "/metrics", "/debug/pprof/", widgetsPath, widgetsPath + "/w",
		"/api/v1/namespaces", "/api/v1/namespaces/default", "/apis/example.dev/v1/widgets?watch=1", "/apis/no.such/v1/things",
	} {
		a := nobody.do(t, "GET", path, "")
		assert.Equal(t, http.StatusForbidden, a.code, "%s: %s", path, a.body)
		st := a.status(t)
		assert.Equal(t, meta.ReasonForbidden, st.Reason, path)
		assert.Contains(t, st.Message, `User "system:anonymous" cannot`, path)
	}
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		assert.NotContains(t, []int{200, 201, 202, 204}, nobody.do(t, method, "/healthz", "").code, method)
		assert.NotContains(t, []int{200, 201, 202, 204}, nobody.do(t, method, widgetsPath+"/w", widget("w")).code, method)
	}
	assert.Equal(t, http.StatusForbidden, nobody.do(t, "POST", widgetsPath, widget("w")).code)
	assert.Empty(t, admin(t, s.kubeconfig).names(t, widgetsPath))
}

func TestHEALTH_09_11_14_26_VerboseReadiness(t *testing.T) {
	s := serveIn(t, t.TempDir())
	kube := admin(t, s.kubeconfig)
	a := kube.do(t, "GET", "/readyz?verbose", "")
	assert.Equal(t, http.StatusOK, a.code)
	assert.Equal(t, "text/plain; charset=utf-8", a.header.Get("Content-Type"))
	text := string(a.body)
	for _, check := range []string{"ping", "log", "etcd", "informer-sync", "shutdown"} {
		assert.Contains(t, text, "[+]"+check+" ok\n")
		assert.Equal(t, "ok", string(kube.do(t, "GET", "/readyz/"+check, "").body), "HEALTH-07")
	}
	assert.Contains(t, text, "[+]poststarthook/")
	assert.NotContains(t, text, "[-]")
	assert.Regexp(t, `readyz check passed\n$`, text)
	assert.Contains(t, string(kube.do(t, "GET", "/readyz?verbose&exclude=etcd", "").body), "[+]etcd excluded: ok\n")
}

func TestAUTHN_21_FrontProxiesNameUsers(t *testing.T) {
	proxies, err := selfsigned.NewAuthority("proxies")
	require.NoError(t, err)
	file := writeTo(t, t.TempDir(), "proxies.crt", string(proxies.PEM()))
	s := serveIn(t, t.TempDir(), "--requestheader-client-ca-file="+file, "--requestheader-allowed-names=front,back")
	as := func(name string) *answer {
		pair, err := proxies.Client(name)
		require.NoError(t, err)
		cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
		require.NoError(t, err)
		a, err := newClient(t, readKubeconfig(t, s.kubeconfig), &cert).send(t.Context(), http.MethodPost, selfReviews, []byte("{}"),
			"X-Remote-User", "alice", "X-Remote-Group", "devs")
		require.NoError(t, err)
		return a
	}
	a := as("back")
	require.Equal(t, http.StatusCreated, a.code, "%s", a.body)
	var review authn.SelfSubjectReview
	require.NoError(t, json.Unmarshal(a.body, &review))
	require.Equal(t, "alice", review.Status.UserInfo.Username)
	require.Equal(t, []string{"devs", "system:authenticated"}, review.Status.UserInfo.Groups)
	require.Equal(t, http.StatusUnauthorized, as("mallory").code)
	require.Contains(t, refused(t, "--listen=127.0.0.1:0", "--data-dir="+t.TempDir(), "--requestheader-client-ca-file="+file).errOut, "--requestheader-allowed-names")
}
