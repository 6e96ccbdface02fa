package node_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/authz/node"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/memory"
)

func nodeUser(name string) authn.User {
	return authn.User{Name: authn.NodePrefix + name, Groups: []string{authn.GroupNodes}}
}

// question reads "verb group/resource/subresource namespace/name [spec.nodeName]".
func question(t *testing.T, u authn.User, text string) authz.Attributes {
	t.Helper()
	words := strings.Fields(text)
	a := authz.Attributes{User: u, Verb: words[0], Version: "v1", ResourceRequest: true}
	of := strings.Split(words[1], "/")
	a.Group, a.Resource = of[0], of[1]
	if len(of) > 2 {
		a.Subresource = of[2]
	}
	a.Namespace, a.Name, _ = strings.Cut(words[2], "/")
	if len(words) > 3 {
		var err error
		a.Fields, err = meta.ParseFieldSelector("spec.nodeName=" + words[3])
		require.NoError(t, err)
	}
	return a
}

// everyUse is a pod on a node with a reference of each kind.
const everyUse = `{"metadata":{"name":"p"},"spec":{"nodeName":"n1","serviceAccountName":"acc",
	"imagePullSecrets":[{"name":"pull"}],
	"initContainers":[{"env":[{"valueFrom":{"secretKeyRef":{"name":"init-env"}}}]}],
	"containers":[{"envFrom":[{"secretRef":{"name":"from"}},{"configMapRef":{"name":"map-from"}}]}],
	"ephemeralContainers":[{"env":[{"valueFrom":{"configMapKeyRef":{"name":"map-debug"}}}]}],
	"volumes":[{"name":"a","secret":{"secretName":"volume"}},{"name":"b","configMap":{"name":"map"}},
		{"name":"c","projected":{"sources":[{"secret":{"name":"projected"}},{"configMap":{"name":"map-projected"}}]}},
		{"name":"d","persistentVolumeClaim":{"claimName":"data"}},{"name":"e","ephemeral":{"volumeClaimTemplate":{}}},
		{"name":"f","azureFile":{"secretName":"azure"}},{"name":"g","csi":{"nodePublishSecretRef":{"name":"csi"}}},
		{"name":"h","cephfs":{"secretRef":{"name":"ceph"}}},{"name":"i","flexVolume":{"secretRef":{"name":"flex"}}}],
	"resourceClaims":[{"name":"x","resourceClaimName":"gpu"},{"name":"y","resourceClaimTemplateName":"t"}]},
	"status":{"resourceClaimStatuses":[{"name":"y","resourceClaimName":"p-y"}],"extendedResourceClaimStatus":{"resourceClaimName":"ext"}}}`

func TestNODEAZ_01_ANodeReadsWhatItsPodsUse(t *testing.T) {
	x := node.NewIndex("")
	core := func(resource string) meta.GroupResource { return meta.GroupResource{Resource: resource} }
	pods := core("pods")
	x.Put(pods, "a", "p", []byte(everyUse))
	x.Put(core("persistentvolumes"), "", "pv", []byte(`{"spec":{"claimRef":{"namespace":"a","name":"data"},"csi":{
		"nodeStageSecretRef":{"name":"stage","namespace":"vault"},"controllerPublishSecretRef":{"name":"control","namespace":"vault"}}}}`))
	x.Put(core("persistentvolumes"), "", "old", []byte(`{"spec":{"claimRef":{"namespace":"a","name":"p-e"},"rbd":{"secretRef":{"name":"rbd"}}}}`))
	x.Put(core("persistentvolumes"), "", "free", []byte(`{"spec":{"rbd":{"secretRef":{"name":"rbd2","namespace":"a"}}}}`))
	x.Put(meta.GroupResource{Group: "storage.k8s.io", Resource: "volumeattachments"}, "", "va", []byte(`{"spec":{"nodeName":"n1"}}`))
	x.Put(meta.GroupResource{Group: "resource.k8s.io", Resource: "resourceslices"}, "", "sl", []byte(`{"spec":{"nodeName":"n1"}}`))
	x.Put(pods, "a", "mirror", []byte(`{"metadata":{"annotations":{"kubernetes.io/config.mirror":"x"}},"spec":{"nodeName":"n1","volumes":[{"secret":{"secretName":"wish"}}]}}`))
	x.Put(pods, "a", "unbound", []byte(`{"spec":{"imagePullSecrets":[{"name":"waiting"}]}}`))
	z := node.With(x, "")
	var related []string
	for _, s := range strings.Fields("pull init-env from volume projected azure csi ceph flex rbd") {
		related = append(related, "get /secrets a/"+s, "list /secrets a/"+s, "watch /secrets a/"+s)
	}
	for _, s := range strings.Fields("map map-from map-debug map-projected") {
		related = append(related, "get /configmaps a/"+s)
	}
	for _, s := range strings.Fields("gpu p-y ext") {
		related = append(related, "get resource.k8s.io/resourceclaims a/"+s)
	}
	related = append(related, "get /persistentvolumeclaims a/data", "get /persistentvolumeclaims a/p-e", "patch /persistentvolumeclaims/status a/data",
		"get /persistentvolumes /pv", "get /persistentvolumes /old", "get /secrets vault/stage", "get storage.k8s.io/volumeattachments /va",
		"get /serviceaccounts a/acc", "create /serviceaccounts/token a/acc", "get /pods a/p", "list /pods a/p", "get /pods a/mirror",
		"delete resource.k8s.io/resourceslices /sl", "get resource.k8s.io/resourceslices /sl")
	never := []string{
		"get /secrets a/wish", "get /secrets a/waiting", "get /secrets vault/control", "get /secrets b/pull", "get /secrets a/", "list /secrets a/",
		"get /secrets a/rbd2", "get /persistentvolumes /free", "update /secrets a/pull", "get /secrets/status a/pull", "list /persistentvolumeclaims a/data",
		"get /persistentvolumeclaims/status a/data", "update /persistentvolumeclaims a/data", "update /serviceaccounts a/acc", "create /serviceaccounts/token a/",
		"get /pods a/unbound", "get resource.k8s.io/resourceclaims a/t", "get other.io/secrets a/pull", "list resource.k8s.io/resourceslices /sl",
	}
	decide := func(u authn.User, text string) authz.Decision {
		d, _, err := z.Authorize(t.Context(), question(t, u, text))
		require.NoError(t, err)
		return d
	}
	for _, text := range related {
		require.Equal(t, authz.Allow, decide(nodeUser("n1"), text), text)
		require.Equal(t, authz.NoOpinion, decide(nodeUser("n2"), text), "another node: %s", text)
		require.Equal(t, authz.NoOpinion, decide(authn.User{Name: "system:node:n1"}, text), "a user of that name: %s", text)
		require.Equal(t, authz.NoOpinion, decide(nodeUser(""), text), "a node without a name: %s", text)
	}
	for _, text := range never {
		require.Equal(t, authz.NoOpinion, decide(nodeUser("n1"), text), text)
	}
	x.Put(pods, "a", "twin", []byte(`{"spec":{"nodeName":"n1","imagePullSecrets":[{"name":"pull"}]}}`))
	x.Drop(pods, "a", "p")
	require.Equal(t, authz.Allow, decide(nodeUser("n1"), "get /secrets a/pull"), "another pod uses it")
	x.Put(pods, "a", "twin", []byte(`{"spec":"none"}`))
	for _, text := range related {
		if !strings.Contains(text, "/va") && !strings.Contains(text, "/sl") && !strings.Contains(text, "/mirror") {
			require.Equal(t, authz.NoOpinion, decide(nodeUser("n1"), text), "the pod is gone: %s", text)
		}
	}
}

// What a node may do whatever pods it has. The plugin NodeRestriction looks into the objects.
func TestNODEAZ_01_ANodeDoesWhatKubeletsDo(t *testing.T) {
	z := node.With(node.NewIndex(""), "")
	for text, want := range map[string]bool{
		"get /nodes /n1": true, "watch /nodes /n1": true, "create /nodes /": true, "patch /nodes /n2": true, "update /nodes/status /n1": true,
		"get /nodes /n2": false, "list /nodes /": false, "delete /nodes /n1": false, "get /nodes/status /n1": false, "get /nodes/proxy /n1": false,
		"list /pods / n1": true, "watch /pods / n1": true, "list /pods / n2": false, "list /pods /": false, "deletecollection /pods / n1": false,
		"create /pods a/": true, "delete /pods a/p": true, "update /pods a/p": false, "patch /pods/status a/p": true, "get /pods/log a/p": false,
		"create /pods/eviction a/p": true, "create /pods/exec a/p": false, "patch /pods/resize a/p": false,
		"create coordination.k8s.io/leases kube-node-lease/": true, "update coordination.k8s.io/leases kube-node-lease/n1": true,
		"update coordination.k8s.io/leases kube-node-lease/n2": false, "get coordination.k8s.io/leases kube-system/n1": false,
		"list coordination.k8s.io/leases kube-node-lease/n1": false,
		"create storage.k8s.io/csinodes /":                   true, "patch storage.k8s.io/csinodes /n1": true, "patch storage.k8s.io/csinodes /n2": false,
		"list storage.k8s.io/csinodes /": false, "get storage.k8s.io/csinodes/status /n1": false, "list storage.k8s.io/csidrivers /": true,
		"create resource.k8s.io/resourceslices /": true, "list resource.k8s.io/resourceslices / n1": true,
		"deletecollection resource.k8s.io/resourceslices / n1": true, "deletecollection resource.k8s.io/resourceslices / n2": false,
		"list /services a/": true, "get /services/proxy a/s": false, "get /endpoints a/e": true, "list /endpoints a/": false,
		"create /events a/": true, "create events.k8s.io/events a/": true, "list /events a/": false,
		"create certificates.k8s.io/certificatesigningrequests /": true, "watch certificates.k8s.io/certificatesigningrequests /": true,
		"update certificates.k8s.io/certificatesigningrequests/approval /c": false,
		"create authentication.k8s.io/tokenreviews /":                       true, "create authorization.k8s.io/subjectaccessreviews /": true,
		"get node.k8s.io/runtimeclasses /r": true, "list rbac.authorization.k8s.io/roles a/": false, "escalate rbac.authorization.k8s.io/roles a/r": false,
	} {
		d, _, err := z.Authorize(t.Context(), question(t, nodeUser("n1"), text))
		require.NoError(t, err)
		require.Equal(t, want, d == authz.Allow, text)
		d, _, err = z.Authorize(t.Context(), question(t, authn.User{Name: "ann", Groups: []string{authn.GroupNodes}}, text))
		require.NoError(t, err)
		require.Equal(t, authz.NoOpinion, d, "somebody else: %s", text)
	}
	d, _, err := z.Authorize(t.Context(), authz.Attributes{User: nodeUser("n1"), Verb: "get", Path: "/metrics"})
	require.NoError(t, err)
	require.Equal(t, authz.NoOpinion, d)
	require.True(t, authz.RulesOf(t.Context(), z, nodeUser("n1"), "a").Incomplete, "they depend on the pods")
	require.False(t, authz.RulesOf(t.Context(), z, authn.User{Name: "ann"}, "a").Incomplete)
}

// Pod and Secret are kinds of no particular package.
type Pod struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Spec PodSpec `json:"spec"`
}

type PodSpec struct {
	NodeName         string      `json:"nodeName,omitempty" optional:""`
	ImagePullSecrets []SecretRef `json:"imagePullSecrets,omitempty"`
}

type SecretRef struct {
	Name string `json:"name"`
}

type Secret struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Data map[string]string `json:"data,omitempty"`
}

// serve starts a server with the mode Node and, for users, AlwaysDeny.
func serve(t *testing.T, b storage.Backend, of ...registry.Definition) func(user, method, path, body string) int {
	t.Helper()
	srv, err := kindwright.New(b, kindwright.Serve(of...), kindwright.Authorize(node.New("")),
		kindwright.Authenticate(authn.Func(func(r *http.Request) (authn.User, bool, error) {
			groups := map[bool]string{true: authn.GroupNodes, false: authn.GroupMasters}[strings.HasPrefix(r.Header.Get("X-User"), authn.NodePrefix)]
			return authn.User{Name: r.Header.Get("X-User"), Groups: []string{groups}}, true, nil
		})))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, srv.Start(ctx))
	t.Cleanup(func() { cancel(); srv.Wait(); require.NoError(t, b.Close()) })
	return func(user, method, path, body string) int {
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-User", user)
		w := httptest.NewRecorder()
		srv.ServeHTTP(w, r)
		return w.Code
	}
}

// What the features ClusterTrustBundle and PodCertificateRequest of Kubernetes give nodes.
func TestNODEAZ_01_ANodeAsksForCertificatesOfItsPods(t *testing.T) {
	x := node.NewIndex("")
	x.Put(meta.GroupResource{Group: "certificates.k8s.io", Resource: "podcertificaterequests"}, "a", "mine", []byte(`{"spec":{"nodeName":"n1"}}`))
	x.Put(meta.GroupResource{Group: "certificates.k8s.io", Resource: "podcertificaterequests"}, "a", "theirs", []byte(`{"spec":{"nodeName":"n2"}}`))
	with, without := node.With(x, "", node.PodCertificates(), node.TrustBundles()), node.With(x, "")
	const requests, bundles = "certificates.k8s.io/podcertificaterequests", "certificates.k8s.io/clustertrustbundles"
	for text, want := range map[string]bool{
		"create " + requests + " a/": true, "get " + requests + " a/mine": true, "get " + requests + " a/theirs": false,
		"list " + requests + " / n1": true, "watch " + requests + " / n1": true, "list " + requests + " / n2": false, "list " + requests + " a/": false,
		"update " + requests + " a/mine": false, "delete " + requests + " a/mine": false, "get " + requests + "/status a/mine": false,
		"get " + bundles + " /b": true, "list " + bundles + " /": true, "watch " + bundles + " /": true, "create " + bundles + " /": false,
	} {
		d, _, err := with.Authorize(t.Context(), question(t, nodeUser("n1"), text))
		require.NoError(t, err)
		require.Equal(t, want, d == authz.Allow, text)
		d, _, err = without.Authorize(t.Context(), question(t, nodeUser("n1"), text))
		require.NoError(t, err)
		require.Equal(t, authz.NoOpinion, d, text)
	}
}

func TestNODEAZ_01_ARightBeginsAndEndsWithTheWriteOfThePod(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) storage.Backend{
		"memory": func(*testing.T) storage.Backend { return memory.New() },
		"bbolt": func(t *testing.T) storage.Backend {
			t.Helper()
			b, err := bbolt.Open(t.TempDir() + "/db")
			require.NoError(t, err)
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			do := serve(t, open(t), kinds.ControlPlane(), registry.Kind[Pod]{Version: "v1", Plural: "pods"}, registry.Kind[Secret]{Version: "v1", Plural: "secrets"})
			require.Equal(t, 201, do("admin", "POST", "/api/v1/namespaces/default/secrets", `{"metadata":{"name":"s"},"data":{"k":"v"}}`))
			const secret = "/api/v1/namespaces/default/secrets/s"
			for round := range 50 {
				on := fmt.Sprint("n", round%2)
				require.Equal(t, 403, do(authn.NodePrefix+on, "GET", secret, ""), "round %d", round)
				require.Equal(t, 201, do("admin", "POST", "/api/v1/namespaces/default/pods", `{"metadata":{"name":"p"},"spec":{"nodeName":"`+on+`","imagePullSecrets":[{"name":"s"}]}}`))
				require.Equal(t, 200, do(authn.NodePrefix+on, "GET", secret, ""), "round %d", round)
				require.Equal(t, 403, do(authn.NodePrefix+"n2", "GET", secret, ""))
				require.Equal(t, 200, do("admin", "DELETE", "/api/v1/namespaces/default/pods/p", ""))
			}
			require.Equal(t, 403, do(authn.NodePrefix+"n0", "GET", secret, ""))
		})
	}
}

func TestNODEAZ_02_WithoutTheKindsNobodyIsRejected(t *testing.T) {
	do := serve(t, memory.New(), kinds.ControlPlane(), registry.Kind[Secret]{Version: "v1", Plural: "secrets"})
	require.Equal(t, 201, do("admin", "POST", "/api/v1/namespaces/default/secrets", `{"metadata":{"name":"s"}}`))
	require.Equal(t, 403, do(authn.NodePrefix+"n1", "GET", "/api/v1/namespaces/default/secrets/s", ""))
	require.Equal(t, 200, do("admin", "GET", "/readyz", ""), "it does not wait for kinds that do not come")
	d, reason, err := authz.Union(node.With(node.NewIndex(""), ""), authz.AlwaysAllow()).Authorize(t.Context(),
		question(t, authn.User{Name: "ann"}, "get /secrets a/s"))
	require.NoError(t, err)
	require.Equal(t, authz.Allow, d, "the next authorizer decides")
	require.Empty(t, reason)
	_, _, err = node.New("").Authorize(t.Context(), authz.Attributes{})
	require.ErrorIs(t, err, authz.ErrUnavailable)
}
