package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/kindwright/kindwright/authn/serviceaccount"
)

// What Kubernetes tests of tokens of service accounts in test/integration/auth and
// test/integration/serviceaccount, with the same flags.

// warnings notes the warnings that a client is sent.
type warnings struct {
	mu   sync.Mutex
	list []string
}

func (w *warnings) HandleWarningHeader(_ int, _, message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, message)
}

// took returns the warnings since the last call.
func (w *warnings) took() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.list
	w.list = nil
	return out
}

// accounts is a server with tokens, and its administrator.
type accounts struct {
	kubernetes.Interface
	*server
	warned *warnings
}

func (s *server) rest(token string) *rest.Config {
	return &rest.Config{Host: s.url, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
}

func runAccounts(t *testing.T, args ...string) *accounts {
	t.Helper()
	private, _ := keyFiles(t)
	s := run(t, append([]string{
		"--data-dir=" + t.TempDir(), "--disable-admission-plugins=ServiceAccount", "--service-account-issuer=https://foo.bar.example.com",
		"--service-account-signing-key-file=" + private, "--service-account-jwks-uri=https:///openid/v1/jwks",
		"--service-account-max-token-expiration=2h", "--api-audiences=api",
	}, args...)...)
	a := &accounts{server: s, warned: &warnings{}}
	c := s.rest("master")
	c.WarningHandler = a.warned
	var err error
	a.Interface, err = kubernetes.NewForConfig(c)
	require.NoError(t, err)
	_, err = a.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "myns"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return a
}

const account = "test-svcacct"

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: "myns"} }

func (a *accounts) account(t *testing.T, name string) (*corev1.ServiceAccount, func()) {
	t.Helper()
	sa, err := a.CoreV1().ServiceAccounts("myns").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: named(name)}, metav1.CreateOptions{})
	require.NoError(t, err)
	return sa, sync.OnceFunc(func() {
		require.NoError(t, a.CoreV1().ServiceAccounts("myns").Delete(t.Context(), name, metav1.DeleteOptions{}))
	})
}

func (a *accounts) pod(t *testing.T, name, of, node string) (types.UID, func()) {
	t.Helper()
	pod, err := a.CoreV1().Pods("myns").Create(t.Context(), &corev1.Pod{ObjectMeta: named(name), Spec: corev1.PodSpec{
		ServiceAccountName: of, NodeName: node, Containers: []corev1.Container{{Name: "test-container", Image: "nginx"}},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return pod.UID, sync.OnceFunc(func() {
		now := int64(0)
		require.NoError(t, a.CoreV1().Pods("myns").Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	})
}

func (a *accounts) secret(t *testing.T, name string) (types.UID, func()) {
	t.Helper()
	secret, err := a.CoreV1().Secrets("myns").Create(t.Context(), &corev1.Secret{ObjectMeta: named(name)}, metav1.CreateOptions{})
	require.NoError(t, err)
	return secret.UID, sync.OnceFunc(func() {
		require.NoError(t, a.CoreV1().Secrets("myns").Delete(t.Context(), name, metav1.DeleteOptions{}))
	})
}

func (a *accounts) node(t *testing.T, name string) (types.UID, func()) {
	t.Helper()
	node, err := a.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return node.UID, sync.OnceFunc(func() {
		require.NoError(t, a.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}))
	})
}

// ask asks for a token, and requires the warnings.
func (a *accounts) ask(t *testing.T, r *authenticationv1.TokenRequest, warns ...string) (*authenticationv1.TokenRequest, error) {
	t.Helper()
	a.warned.took()
	out, err := a.CoreV1().ServiceAccounts("myns").CreateToken(t.Context(), account, r, metav1.CreateOptions{})
	require.Equal(t, warns, slices.Clip(a.warned.took()))
	return out, err
}

func (a *accounts) issue(t *testing.T, r *authenticationv1.TokenRequest, warns ...string) *authenticationv1.TokenRequest {
	t.Helper()
	out, err := a.ask(t, r, warns...)
	require.NoError(t, err)
	return out
}

func (a *accounts) refuses(t *testing.T, r *authenticationv1.TokenRequest, text string) {
	t.Helper()
	_, err := a.ask(t, r)
	require.ErrorContains(t, err, text)
}

// review asks who has a token. The credential's id is left out.
func (a *accounts) review(t *testing.T, r *authenticationv1.TokenRequest, good bool) authenticationv1.UserInfo {
	t.Helper()
	out, err := a.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{
		Token: r.Status.Token, Audiences: r.Spec.Audiences,
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Equal(t, good, out.Status.Authenticated, out.Status.Error)
	require.Equal(t, good, out.Status.Error == "")
	delete(out.Status.User.Extra, "authentication.kubernetes.io/credential-id")
	return out.Status.User
}

func askFor(audiences ...string) *authenticationv1.TokenRequest {
	return &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
}

func boundTo(kind, name string, uid types.UID) *authenticationv1.TokenRequest {
	r := askFor("api")
	r.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: kind, APIVersion: "v1", Name: name, UID: uid}
	return r
}

// claim returns a claim of a token, in JSON.
func claim(t *testing.T, r *authenticationv1.TokenRequest, path ...string) string {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(strings.Split(r.Status.Token, ".")[1])
	require.NoError(t, err)
	var at any
	require.NoError(t, json.Unmarshal(text, &at))
	for _, name := range path {
		object, _ := at.(map[string]any)
		at = object[name]
	}
	out, err := json.Marshal(at)
	require.NoError(t, err)
	return string(out)
}

func (a *accounts) claims(t *testing.T, r *authenticationv1.TokenRequest, want map[string]string) {
	t.Helper()
	for _, name := range []string{"pod", "secret", "node"} {
		if want[name] == "" {
			require.Equal(t, "null", claim(t, r, "kubernetes.io", name))
		} else {
			require.Equal(t, `"`+want[name]+`"`, claim(t, r, "kubernetes.io", name, "name"))
		}
	}
	require.Equal(t, `"system:serviceaccount:myns:test-svcacct"`, claim(t, r, "sub"))
	require.Equal(t, `["api"]`, claim(t, r, "aud"))
	require.Equal(t, `"myns"`, claim(t, r, "kubernetes.io", "namespace"))
	require.Equal(t, `"test-svcacct"`, claim(t, r, "kubernetes.io", "serviceaccount", "name"))
}

func TestSAT_01_02_03_04_ServiceAccountTokenCreate(t *testing.T) {
	a := runAccounts(t)
	t.Run("bound to service account", func(t *testing.T) {
		a.refuses(t, askFor("api"), `serviceaccounts "test-svcacct" not found`)
		sa, remove := a.account(t, account)
		defer remove()
		wrong := askFor("api")
		wrong.Name = "invalid-name"
		a.refuses(t, wrong, "must match the service account name")
		wrong = askFor("api")
		wrong.Namespace = "invalid-namespace"
		a.refuses(t, wrong, "does not match the namespace")
		got := a.issue(t, askFor("api"))
		require.Equal(t, []string{account, "myns", string(sa.UID)}, []string{got.Name, got.Namespace, string(got.UID)})
		require.False(t, got.CreationTimestamp.IsZero())
		a.claims(t, got, nil)
		require.Empty(t, a.review(t, got, true).Extra)
		remove()
		a.review(t, got, false)
	})
	t.Run("uid of the service account", func(t *testing.T) {
		sa, remove := a.account(t, account)
		defer remove()
		asked := askFor("api")
		asked.UID = sa.UID
		a.issue(t, asked)
		asked.UID = "wrong-uid-12345"
		a.refuses(t, asked, `Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "test-svcacct": the UID in the token request (wrong-uid-12345) does not match the UID of the service account (`+string(sa.UID)+`)`)
		asked.UID = ""
		require.Equal(t, sa.UID, a.issue(t, asked).UID)
	})
	for name, c := range map[string]struct{ runs, exists bool }{"pod": {false, false}, "pod on a node": {true, true}, "pod on a node without an object": {true, false}} {
		t.Run("bound to service account and "+name, func(t *testing.T) {
			a.refuses(t, boundTo("Pod", "test-pod", ""), "not found")
			_, remove := a.account(t, account)
			defer remove()
			a.refuses(t, boundTo("Pod", "test-pod", ""), `pods "test-pod" not found`)
			extra, want, on := map[string]authenticationv1.ExtraValue{}, map[string]string{"pod": "test-pod"}, ""
			if c.runs {
				on, want["node"] = "test-node", "test-node"
				extra["authentication.kubernetes.io/node-name"] = authenticationv1.ExtraValue{"test-node"}
			}
			uid, removePod := a.pod(t, "test-pod", account, on)
			defer removePod()
			if c.exists {
				node, removeNode := a.node(t, "test-node")
				defer removeNode()
				extra["authentication.kubernetes.io/node-uid"] = authenticationv1.ExtraValue{string(node)}
			}
			a.issue(t, boundTo("Pod", "test-pod", uid))
			a.refuses(t, boundTo("Pod", "test-pod", "wrong"), "the UID in the bound object reference (wrong) does not match the UID in record")
			got := a.issue(t, boundTo("Pod", "test-pod", ""))
			a.claims(t, got, want)
			extra["authentication.kubernetes.io/pod-name"] = authenticationv1.ExtraValue{"test-pod"}
			extra["authentication.kubernetes.io/pod-uid"] = authenticationv1.ExtraValue{string(uid)}
			require.Equal(t, extra, a.review(t, got, true).Extra)
			removePod()
			a.review(t, got, false)
			_, again := a.pod(t, "test-pod", account, on)
			defer again()
			a.review(t, got, false)
		})
	}
	t.Run("bound to service account and node or secret", func(t *testing.T) {
		_, remove := a.account(t, account)
		defer remove()
		for kind, create := range map[string]func(*testing.T, string) (types.UID, func()){"Node": a.node, "Secret": a.secret} {
			a.refuses(t, boundTo(kind, "bound", ""), "not found")
			uid, removeIt := create(t, "bound")
			a.issue(t, boundTo(kind, "bound", uid))
			a.refuses(t, boundTo(kind, "bound", "wrong"), "does not match the UID in record")
			got := a.issue(t, boundTo(kind, "bound", ""))
			a.claims(t, got, map[string]string{strings.ToLower(kind): "bound"})
			a.review(t, got, true)
			removeIt()
			a.review(t, got, false)
			_, again := create(t, "bound")
			a.review(t, got, false)
			again()
		}
	})
	t.Run("bound to a pod of another account", func(t *testing.T) {
		_, remove := a.account(t, account)
		defer remove()
		_, removePod := a.pod(t, "other-test-pod", "other-"+account, "")
		defer removePod()
		a.refuses(t, boundTo("Pod", "other-test-pod", ""), "cannot bind token for serviceaccount")
	})
	t.Run("audiences", func(t *testing.T) {
		_, remove := a.account(t, account)
		defer remove()
		elsewhere := a.issue(t, askFor("not-the-api"))
		elsewhere.Spec.Audiences = nil
		a.review(t, elsewhere, false)
		code, _ := a.do(t, elsewhere.Status.Token, "GET", "/api", "")
		require.Equal(t, http.StatusUnauthorized, code)
		own := a.issue(t, askFor())
		require.Equal(t, `["api"]`, claim(t, own, "aud"))
		a.review(t, own, true)
	})
	t.Run("expiration", func(t *testing.T) { a.testExpiration(t) })
	t.Run("issuer metadata", func(t *testing.T) { a.testMetadata(t) })
}

func (a *accounts) testExpiration(t *testing.T) {
	t.Helper()
	_, remove := a.account(t, account)
	defer remove()
	uid, removePod := a.pod(t, "test-pod", account, "")
	defer removePod()
	lasting := func(seconds int64, audiences ...string) *authenticationv1.TokenRequest {
		r := boundTo("Pod", "test-pod", uid)
		r.Spec.ExpirationSeconds = &seconds
		r.Spec.Audiences = audiences
		return r
	}
	number := func(r *authenticationv1.TokenRequest, path ...string) (n int64) {
		require.NoError(t, json.Unmarshal([]byte(claim(t, r, path...)), &n))
		return n
	}
	got := a.issue(t, lasting(3607, "api"))
	a.review(t, got, true)
	issued := number(got, "iat")
	require.EqualValues(t, 365*24*3600, number(got, "exp")-issued, "whatever the longest lifetime is")
	require.EqualValues(t, 3607, number(got, "kubernetes.io", "warnafter")-issued)
	require.EqualValues(t, 3607, got.Status.ExpirationTimestamp.Unix()-issued)
	require.EqualValues(t, 3607, *got.Spec.ExpirationSeconds)

	got = a.issue(t, lasting(3607, "not-the-api", "api"))
	require.Equal(t, "null", claim(t, got, "kubernetes.io", "warnafter"))
	require.EqualValues(t, 3607, number(got, "exp")-number(got, "iat"))

	got = a.issue(t, lasting(6600, "api"))
	require.EqualValues(t, 6600, *got.Spec.ExpirationSeconds)
	got = a.issue(t, lasting(7800, "api"), "requested expiration of 7800 seconds shortened to 7200 seconds")
	require.EqualValues(t, 7200, *got.Spec.ExpirationSeconds)
	require.EqualValues(t, 7200, number(got, "exp")-number(got, "iat"))
	a.review(t, got, true)
}

func (a *accounts) testMetadata(t *testing.T) {
	t.Helper()
	_, remove := a.account(t, account)
	defer remove()
	token := a.issue(t, askFor("api")).Status.Token
	read := func(path, media string, into any) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.url+path, http.NoBody)
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer "+token)
		answer, err := a.client.Do(request)
		require.NoError(t, err)
		defer func() { require.NoError(t, answer.Body.Close()) }()
		require.Equal(t, http.StatusOK, answer.StatusCode)
		require.Equal(t, []string{media, "public, max-age=3600"}, []string{answer.Header.Get("Content-Type"), answer.Header.Get("Cache-Control")})
		require.NoError(t, json.NewDecoder(answer.Body).Decode(into))
	}
	var metadata struct {
		Issuer string `json:"issuer"`
		JWKS   string `json:"jwks_uri"`
	}
	read("/.well-known/openid-configuration", "application/json", &metadata)
	require.Equal(t, "https://foo.bar.example.com", metadata.Issuer)
	require.Equal(t, "https:///openid/v1/jwks", metadata.JWKS)
	var set struct{ Keys []map[string]any }
	read("/openid/v1/jwks", "application/jwk-set+json", &set)
	require.Len(t, set.Keys, 1)
	header, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[0])
	require.NoError(t, err)
	require.Contains(t, string(header), `"kid":"`+set.Keys[0]["kid"].(string)+`"`)
}

// A token in a Secret, which a controller wrote there with the key of the server.
func TestSAT_03_ServiceAccountTokenAuthentication(t *testing.T) {
	private, _ := keyFiles(t)
	a := runAccounts(t, "--service-account-signing-key-file="+private)
	data, err := os.ReadFile(private)
	require.NoError(t, err)
	key, err := serviceaccount.ParsePrivateKey(data)
	require.NoError(t, err)
	signer, err := serviceaccount.NewSigner(key)
	require.NoError(t, err)
	sa, _ := a.account(t, "ro")
	claims, err := json.Marshal(map[string]any{
		"iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:myns:ro", "kubernetes.io/serviceaccount/namespace": "myns",
		"kubernetes.io/serviceaccount/secret.name": "ro-test-token", "kubernetes.io/serviceaccount/service-account.name": "ro",
		"kubernetes.io/serviceaccount/service-account.uid": string(sa.UID),
	})
	require.NoError(t, err)
	token, err := signer.Sign(t.Context(), claims)
	require.NoError(t, err)
	secrets := a.CoreV1().Secrets("myns")
	_, err = secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "ro-test-token", Annotations: map[string]string{corev1.ServiceAccountNameKey: "ro", corev1.ServiceAccountUIDKey: string(sa.UID)}},
		Type:       corev1.SecretTypeServiceAccountToken, Data: map[string][]byte{corev1.ServiceAccountTokenKey: []byte(token)},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(a.rest(token))
	require.NoError(t, err)
	who, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Equal(t, "system:serviceaccount:myns:ro", who.Status.UserInfo.Username)
	require.Eventually(t, func() bool {
		secret, err := secrets.Get(t.Context(), "ro-test-token", metav1.GetOptions{})
		return err == nil && secret.Labels["kubernetes.io/legacy-token-last-used"] != ""
	}, time.Minute, 10*time.Millisecond)
	tracking, err := a.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "kube-apiserver-legacy-service-account-token-tracking", metav1.GetOptions{})
	require.NoError(t, err)
	require.NotEmpty(t, tracking.Data["since"])
	require.NoError(t, secrets.Delete(t.Context(), "ro-test-token", metav1.DeleteOptions{}))
	_, err = client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	require.ErrorContains(t, err, "Unauthorized")
}

// A plugin gives clients their credential.
func TestAUTHN_16_EXEC_16_APluginHandsOutTokens(t *testing.T) {
	shell, err := exec.LookPath("sh")
	require.NoError(t, err)
	a := runAccounts(t)
	_, remove := a.account(t, account)
	credential, err := json.Marshal(map[string]any{
		"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
		"status": map[string]any{"token": a.issue(t, askFor()).Status.Token},
	})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "credential")
	require.NoError(t, os.WriteFile(file, bytes.TrimSpace(credential), 0o600))
	c := a.rest("")
	c.ExecProvider = &api.ExecConfig{
		Command: shell, Args: []string{"-c", `cat "$0"`, file}, APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: api.NeverExecInteractiveMode,
	}
	client, err := kubernetes.NewForConfig(c)
	require.NoError(t, err)
	who, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Equal(t, "system:serviceaccount:myns:"+account, who.Status.UserInfo.Username)
	remove()
	_, err = client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	require.ErrorContains(t, err, "Unauthorized")
}

// The plugin ServiceAccount is on by default, as in kube-apiserver, and can be disabled.
func TestPodsNeedAccountsByDefault(t *testing.T) {
	const pods, accounts = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/serviceaccounts"
	const pod = `{"metadata":{"name":"p"},"spec":{"serviceAccountName":"robot","containers":[{"name":"c","image":"x"}]}}`
	s := runAsIs(t, "--data-dir="+t.TempDir())
	code, got := s.do(t, "master", "POST", pods, pod)
	require.Equal(t, 403, code, "%v", got)
	require.Equal(t, `pods "p" is forbidden: error looking up service account default/robot: serviceaccount "robot" not found`, got["message"])
	code, _ = s.do(t, "master", "POST", accounts, `{"metadata":{"name":"robot"}}`)
	require.Equal(t, 201, code)
	code, got = s.do(t, "master", "POST", pods, pod)
	require.Equal(t, 201, code, "%v", got)
	require.NotContains(t, s.log.String(), "ServiceAccount is accepted")
	for _, flag := range []string{"--disable-admission-plugins=ServiceAccount", "--disable-admission-plugins=Priority,ServiceAccount"} {
		s := runAsIs(t, "--data-dir="+t.TempDir(), flag)
		code, got := s.do(t, "master", "POST", pods, pod)
		require.Equal(t, 201, code, "%v", got)
	}
}

// Plugins of the program that are on by default, or are enabled, and flags that set them up.
func TestPluginsOfTheProgram(t *testing.T) {
	const in = "/api/v1/namespaces/default/"
	s := run(t, "--data-dir="+t.TempDir(), "--enable-admission-plugins=DenyServiceExternalIPs",
		"--default-not-ready-toleration-seconds=7", "--default-unreachable-toleration-seconds=0")
	require.NotContains(t, s.log.String(), "no effect")
	post := func(code int, resource, body string) map[string]any {
		got, out := s.do(t, "master", "POST", in+resource, body)
		require.Equal(t, code, got, "%v", out)
		return out
	}
	pod := post(201, "pods", `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"x"}]}}`)
	var p corev1.Pod
	text, err := json.Marshal(pod)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &p))
	require.Len(t, p.Spec.Tolerations, 2)
	require.Equal(t, []int64{7, 0}, []int64{*p.Spec.Tolerations[0].TolerationSeconds, *p.Spec.Tolerations[1].TolerationSeconds})
	post(403, "services", `{"metadata":{"name":"s"},"spec":{"ports":[{"port":1}],"externalIPs":["192.0.2.7"]}}`)
	post(201, "limitranges", `{"metadata":{"name":"l"},"spec":{"limits":[{"type":"Pod","max":{"cpu":"1"}}]}}`)
	post(403, "pods", `{"metadata":{"name":"q"},"spec":{"containers":[{"name":"c","image":"x"}]}}`)
	post(201, "resourcequotas", `{"metadata":{"name":"q"},"spec":{"hard":{"configmaps":"0"}}}`)
	code, out := s.do(t, "master", "PUT", in+"resourcequotas/q/status", `{"metadata":{"name":"q"},"status":{"hard":{"configmaps":"0"},"used":{"configmaps":"0"}}}`)
	require.Equal(t, 200, code, "%v", out)
	got := post(403, "configmaps", `{"metadata":{"name":"c"}}`)
	require.Contains(t, got["message"], "exceeded quota: q, requested: configmaps=1, used: configmaps=0, limited: configmaps=0")
	s = run(t, "--data-dir="+t.TempDir(), "--disable-admission-plugins=LimitRanger,ResourceQuota")
	post(201, "limitranges", `{"metadata":{"name":"l"},"spec":{"limits":[{"type":"Pod","max":{"cpu":"1"}}]}}`)
	post(201, "pods", `{"metadata":{"name":"q"},"spec":{"containers":[{"name":"c","image":"x"}]}}`)
}
