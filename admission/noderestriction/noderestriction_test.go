package noderestriction_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/admission/noderestriction"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// cluster is a server with some objects, by resource, namespace and name.
type cluster struct {
	admission.Server // answers nothing else

	objects map[string]string
	allow   authz.Decision
}

func (c cluster) Authorizer() authz.Authorizer {
	return authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		if a.Verb == "request-serviceaccounts-token-audience" && a.Resource == "granted" && a.Name == "acc" {
			return c.allow, "", nil
		}
		return authz.NoOpinion, "", nil
	})
}

func (cluster) Convert(context.Context, map[string]any, meta.GroupVersionKind) (map[string]any, error) {
	panic("not used")
}

func (c cluster) Get(_ context.Context, of meta.GroupVersionResource, namespace, name string) (map[string]any, error) {
	text, ok := c.objects[of.Resource+" "+namespace+"/"+name]
	if !ok {
		return nil, status.NotFound(of.GroupResource(), name)
	}
	return object(text), nil
}

func (cluster) List(context.Context, meta.GroupVersionResource, string) iter.Seq2[map[string]any, error] {
	panic("not used")
}

func (cluster) Labels(context.Context, meta.GroupVersionResource, string, string) (meta.LabelSet, error) {
	panic("not used")
}

func object(text string) map[string]any {
	var out map[string]any
	if text != "" {
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			panic(err)
		}
	}
	return out
}

// write is one write of node n1, and a part of the reason why it is refused, or "".
type write struct {
	op, of, name string // of is group/resource/subresource
	old, now     string
	why          string
}

func (w write) request(u authn.User) *admission.Request {
	of := strings.Split(w.of, "/")
	r := &admission.Request{
		Operation: admission.Operation(w.op), Resource: meta.GroupVersionResource{Group: of[0], Version: "v1", Resource: of[1]},
		Name: w.name, Object: object(w.now), OldObject: object(w.old), User: u,
		Server: cluster{allow: authz.Allow, objects: map[string]string{
			"nodes /n1":                     `{"metadata":{"uid":"u1"}}`,
			"pods a/mine":                   `{"metadata":{"name":"mine","uid":"p1"},"spec":{"nodeName":"n1","volumes":[{"name":"t","projected":{"sources":[{"serviceAccountToken":{"audience":"bank"}}]}},{"name":"c","csi":{"driver":"d"}},{"name":"v","persistentVolumeClaim":{"claimName":"data"}},{"name":"e","ephemeral":{"volumeClaimTemplate":{}}}]}}`,
			"pods a/theirs":                 `{"metadata":{"name":"theirs","uid":"p2"},"spec":{"nodeName":"n2"}}`,
			"pods a/image":                  `{"metadata":{"uid":"p5","annotations":{"kubernetes.io/config.mirror":""}},"spec":{"nodeName":"n1","serviceAccountName":"acc"}}`,
			"pods a/certain":                `{"metadata":{"uid":"p6"},"spec":{"nodeName":"n1","serviceAccountName":"acc"}}`,
			"serviceaccounts a/acc":         `{"metadata":{"uid":"a1"}}`,
			"csidrivers /d":                 `{"spec":{"tokenRequests":[{"audience":"vault"}]}}`,
			"csidrivers /e":                 `{"spec":{"tokenRequests":[{"audience":"disk"}]}}`,
			"persistentvolumeclaims a/data": `{"spec":{"volumeName":"pv"}}`,
			"persistentvolumes /pv":         `{"spec":{"csi":{"driver":"e"}}}`,

			"persistentvolumeclaims a/mine-e": `{"spec":{"volumeName":"old"}}`,
			"persistentvolumes /old":          `{"spec":{"azureFile":{"secretName":"s"}}}`,
			"csidrivers /file.csi.azure.com":  `{"spec":{"tokenRequests":[{"audience":"share"}]}}`,
			"pods a/lost":                     `{"metadata":{"name":"lost","uid":"p3"},"spec":{"nodeName":"n1","volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"none"}}]}}`,
			"pods a/lose":                     `{"metadata":{"name":"lose","uid":"p4"},"spec":{"nodeName":"n1","volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"none"}},{"name":"w","csi":{"driver":"none"}},{"name":"c","csi":{"driver":"d"}}]}}`,
		}},
	}
	if len(of) > 2 {
		r.Subresource = of[2]
	}
	switch r.Resource.Resource {
	case "nodes", "csinodes", "resourceslices", "certificatesigningrequests":
	case "leases":
		r.Namespace, r.Name, _ = strings.Cut(w.name, "/")
	default:
		r.Namespace = "a"
	}
	r.RequestResource, r.RequestSubresource = r.Resource, r.Subresource
	return r
}

// otherUID is told as a failure, not as a refusal: the node may ask again.
const otherUID = "with the uid"

func run(t *testing.T, all []write, options ...noderestriction.Option) {
	t.Helper()
	chain, err := admission.NewChain(noderestriction.Plugin("", options...))
	require.NoError(t, err)
	for _, w := range all {
		r := w.request(authn.User{Name: "system:node:n1", Groups: []string{"system:nodes"}})
		out, changed, err := chain.Checked().Mutate(t.Context(), r)
		if w.why == "" {
			require.NoError(t, err, "%+v", w)
			require.False(t, changed, "it only judges")
			require.Equal(t, r.Object, out)
		} else {
			require.ErrorContains(t, err, w.why, "%+v", w)
			if w.why != "not found" && w.why != otherUID {
				require.Equal(t, meta.ReasonForbidden, status.ReasonOf(err), "%+v: %v", w, err)
			}
		}
		for _, other := range []authn.User{{Name: "ann", Groups: []string{"system:nodes"}}, {Name: "system:node:n1"}} {
			_, _, err = chain.Mutate(t.Context(), w.request(other))
			require.NoError(t, err, "%s is no node: %+v", other.Name, w)
		}
		_, _, err = chain.Mutate(t.Context(), w.request(authn.User{Name: "system:node:", Groups: []string{"system:nodes"}}))
		require.ErrorContains(t, err, "could not determine node from user", "%+v", w)
	}
}

func labelled(labels string) string {
	return `{"metadata":{"name":"n1","labels":{` + labels + `}}}`
}

func TestNODEAZ_01_ANodeWritesItsOwnNode(t *testing.T) {
	all := []write{
		{"CREATE", "/nodes", "n1", "", labelled(""), ""},
		{"CREATE", "/nodes", "", "", labelled(""), ""},
		{"CREATE", "/nodes", "n2", "", `{"metadata":{"name":"n2"}}`, "not allowed to modify node"},
		{"CREATE", "/nodes", "n1", "", `{"metadata":{"name":"n1"},"spec":{"configSource":{}}}`, "configSource"},
		{"UPDATE", "/nodes/status", "n2", labelled(""), labelled(""), "not allowed to modify node"},
		{"UPDATE", "/nodes/status", "n1", labelled(""), labelled(""), ""},
		{"DELETE", "/nodes", "n2", labelled(""), "", "not allowed to modify node"},
		{"UPDATE", "/nodes", "n1", labelled(""), `{"metadata":{"name":"n1"},"spec":{"taints":[{"key":"k"}]}}`, "modify taints"},
		{"UPDATE", "/nodes", "n1", `{"spec":{"taints":[{"key":"k"}]}}`, `{"spec":{}}`, "modify taints"},
		{"UPDATE", "/nodes/status", "n1", labelled(""), `{"metadata":{"name":"n1","ownerReferences":[{"name":"gone"}]}}`, "modify ownerReferences"},
		{"UPDATE", "/nodes", "n1", labelled(""), `{"spec":{"configSource":{"x":"y"}}}`, "new non-nil configSource"},
		{"UPDATE", "/nodes", "n1", `{"spec":{"configSource":{"x":"y"}}}`, `{"spec":{}}`, ""},
	}
	for label, free := range map[string]bool{
		"tier": true, "example.com/tier": true, "kubernetes.io/os": true, "topology.kubernetes.io/zone": true, "x.node.kubernetes.io/y": true,
		"kubelet.kubernetes.io/y": true, "kubernetes.io/hostname": true, "node.kubernetes.io/instance-type": true,
		"node-role.kubernetes.io/control-plane": false, "kubernetes.io/other": false, "k8s.io/x": false, "a.k8s.io/x": false,
		"node-restriction.kubernetes.io/x": false, "a.node-restriction.kubernetes.io/x": false, "notkubernetes.io/x": true,
	} {
		why := map[bool]string{false: label, true: ""}[free]
		one := fmt.Sprintf("%q:\"1\"", label)
		all = append(
			all, write{"CREATE", "/nodes", "n1", "", labelled(one), why},
			write{"UPDATE", "/nodes", "n1", labelled(""), labelled(one), why},
			write{"UPDATE", "/nodes/status", "n1", labelled(one), labelled(""), why},
			write{"UPDATE", "/nodes", "n1", labelled(one), labelled(strings.ReplaceAll(one, "1", "2")), why},
			write{"UPDATE", "/nodes", "n1", labelled(one), labelled(one), ""},
		)
	}
	run(t, all)
}

func mirrored(spec, owner string) string {
	return `{"metadata":{"name":"m","annotations":{"kubernetes.io/config.mirror":"x"},"ownerReferences":[` + owner + `]},"spec":{"nodeName":"n1"` + spec + `}}`
}

const itself = `{"apiVersion":"v1","kind":"Node","name":"n1","uid":"u1","controller":true}`

func TestNODEAZ_01_ANodeCreatesMirrorPodsThatUseNothing(t *testing.T) {
	all := []write{
		{"CREATE", "/pods", "", "", mirrored("", itself), ""},
		{"CREATE", "/pods", "", "", strings.ReplaceAll(mirrored("", itself), "config.mirror", "other"), "can only create mirror pods"},
		{"CREATE", "/pods", "", "", strings.ReplaceAll(mirrored("", itself), `"nodeName":"n1"`, `"nodeName":"n2"`), "spec.nodeName set to itself"},
		{"CREATE", "/pods", "", "", mirrored("", ""), "owner reference set to itself"},
		{"CREATE", "/pods", "", "", mirrored("", itself+","+itself), "single owner reference"},
		{"CREATE", "/pods", "", "", mirrored("", strings.Replace(itself, "n1", "n2", 1)), "owner reference set to itself"},
		{"CREATE", "/pods", "", "", mirrored("", strings.Replace(itself, "true", "false", 1)), "controller owner reference"},
		{"CREATE", "/pods", "", "", mirrored("", strings.Replace(itself, "true", `true,"blockOwnerDeletion":true`, 1)), "blockOwnerDeletion"},
		{"CREATE", "/pods", "", "", mirrored("", strings.Replace(itself, "u1", "u0", 1)), "UID mismatch"},
		{"UPDATE", "/pods", "m", mirrored("", itself), mirrored("", itself), "can only create and delete mirror pods"},
		{"DELETE", "/pods", "m", `{"spec":{"nodeName":"n1"}}`, "", ""},
		{"DELETE", "/pods", "m", `{"spec":{"nodeName":"n2"}}`, "", "can only delete pods"},
		{"CREATE", "/pods/binding", "m", "", `{}`, "unexpected pod subresource"},
		{"CREATE", "/pods", "", "", mirrored(`,"volumes":[{"name":"h","hostPath":{"path":"/"}},{"name":"d","projected":{"sources":[{"downwardAPI":{}}]}}]`, itself), ""},
	}
	for use, what := range map[string]string{
		`"serviceAccountName":"x"`: "serviceaccounts", `"serviceAccount":"x"`: "serviceaccounts", `"imagePullSecrets":[{"name":"s"}]`: "secrets",
		`"containers":[{"env":[{"valueFrom":{"secretKeyRef":{"name":"s"}}}]}]`:             "secrets",
		`"initContainers":[{"env":[{"valueFrom":{"configMapKeyRef":{"name":"s"}}}]}]`:      "configmaps",
		`"ephemeralContainers":[{"envFrom":[{"secretRef":{"name":"s"}}]}]`:                 "secrets",
		`"containers":[{"envFrom":[{"configMapRef":{"name":"s"}}]}]`:                       "configmaps",
		`"resourceClaims":[{"name":"gpu","resourceClaimName":"theirs"}]`:                   "resourceclaims", // CVE-2025-4563
		`"volumes":[{"name":"v","secret":{"secretName":"s"}}]`:                             "secrets (via secret volumes)",
		`"volumes":[{"name":"v","configMap":{"name":"s"}}]`:                                "configmaps (via configmap volumes)",
		`"volumes":[{"name":"v","csi":{"driver":"d"}}]`:                                    "csidrivers",
		`"volumes":[{"name":"v","glusterfs":{"endpoints":"e"}}]`:                           "endpoints",
		`"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}}]`:               "persistentvolumeclaims",
		`"volumes":[{"name":"v","ephemeral":{}}]`:                                          "persistentvolumeclaims (via ephemeral",
		`"volumes":[{"name":"v","azureFile":{"secretName":"s"}}]`:                          "azureFile",
		`"volumes":[{"name":"v","cephfs":{"secretRef":{"name":"s"}}}]`:                     "secrets",
		`"volumes":[{"name":"v","novel":{}}]`:                                              "unknown kind",
		`"volumes":[{"name":"v","projected":{"sources":[{"secret":{"name":"s"}}]}}]`:       "secrets (via projected",
		`"volumes":[{"name":"v","projected":{"sources":[{"configMap":{"name":"s"}}]}}]`:    "configmaps (via projected",
		`"volumes":[{"name":"v","projected":{"sources":[{"serviceAccountToken":{}}]}}]`:    "serviceaccounts (via projected",
		`"volumes":[{"name":"v","projected":{"sources":[{"clusterTrustBundle":{}}]}}]`:     "clustertrustbundles",
		`"volumes":[{"name":"v","projected":{"sources":[{"podCertificate":{}}]}}]`:         "podcertificates",
		`"volumes":[{"name":"v","projected":{"sources":[{"downwardAPI":{},"novel":{}}]}}]`: "via projected volumes",
	} {
		all = append(all, write{"CREATE", "/pods", "", "", mirrored(","+use, itself), what})
	}
	run(t, all)
}

func TestNODEAZ_01_ANodeReportsTheStateOfItsPods(t *testing.T) {
	mine := func(rest string) string { return `{"spec":{"nodeName":"n1"}` + rest + `}` }
	run(t, []write{
		{"UPDATE", "/pods/status", "p", mine(""), mine(`,"status":{"phase":"Running"}`), ""},
		{"UPDATE", "/pods/status", "p", `{"spec":{"nodeName":"n2"}}`, `{"spec":{"nodeName":"n2"}}`, "can only update pod status"},
		{"UPDATE", "/pods/status", "p", mine(""), mine(`,"metadata":{"labels":{"app":"bank"}}`), "cannot update labels"},
		{"UPDATE", "/pods/status", "p", mine(""), mine(`,"status":{"resourceClaimStatuses":[{"name":"g","resourceClaimName":"theirs"}]}`), "resource claim statues"},
		{"UPDATE", "/pods/status", "p", mine(""), mine(`,"status":{"extendedResourceClaimStatus":{"resourceClaimName":"theirs"}}`), "extended resource claim status"},
		{"CREATE", "/pods/eviction", "mine", "", `{"metadata":{"name":"mine"}}`, ""},
		{"CREATE", "/pods/eviction", "", "", `{"metadata":{"namespace":"a","name":"theirs"}}`, "can only evict pods"},
		{"CREATE", "/pods/eviction", "theirs", "", `{"metadata":{"name":"mine"}}`, "can only evict pods"},
		{"CREATE", "/pods/eviction", "none", "", `{}`, "not found"},
		{"CREATE", "/pods/eviction", "", "", `{}`, "could not determine pod"},
		{"UPDATE", "/persistentvolumeclaims/status", "c", `{"metadata":{"resourceVersion":"1"},"status":{"phase":"Bound"}}`, `{"metadata":{},"status":{"phase":"Bound","capacity":{"storage":"2Gi"},"conditions":[{}]}}`, ""},
		{"UPDATE", "/persistentvolumeclaims/status", "c", `{"metadata":{}}`, `{"metadata":{"labels":{"a":"b"}}}`, "not allowed to update fields other"},
		{"UPDATE", "/persistentvolumeclaims/status", "c", `{"metadata":{},"status":{"phase":"Bound"}}`, `{"metadata":{},"status":{"phase":"Lost"}}`, "not allowed to update fields other"},
		{"UPDATE", "/persistentvolumeclaims", "c", `{}`, `{}`, "may only update PVC status"},
	})
}

func TestNODEAZ_01_ANodeAsksForTokensOfItsPods(t *testing.T) {
	ask := func(bound, audiences string) string {
		return `{"spec":{"boundObjectRef":` + bound + `,"audiences":[` + audiences + `]}}`
	}
	const mine = `{"apiVersion":"v1","kind":"Pod","name":"mine","uid":"p1"}`
	pod := func(name, uid string) string {
		return `{"apiVersion":"v1","kind":"Pod","name":"` + name + `","uid":"` + uid + `"}`
	}
	token := func(body, why string) write { return write{"CREATE", "/serviceaccounts/token", "acc", "", body, why} }
	run(t, []write{
		token(ask(mine, `"bank"`), ""),
		token(ask(mine, `"vault"`), ""), // of the driver of a volume
		token(ask(mine, `"disk"`), ""),  // of the driver of a claim's volume
		token(ask(mine, `"granted"`), ""),
		token(ask(mine, `"share"`), ""), // of the driver that serves an old kind of volume
		token(ask(pod("lost", "p3"), `"granted"`), `error validating audience "granted": persistentvolumeclaim "none" not found`),
		token(ask(pod("lose", "p4"), `"granted"`), `error validating audience "granted": [persistentvolumeclaim "none" not found, csidriver.storage.k8s.io "none" not found]`),
		token(ask(pod("lose", "p4"), `"vault"`), ""),
		token(ask(mine, `"other"`), "not found in pod spec volume"),
		token(ask(mine, ""), "not found in pod spec volume"),
		token(ask(mine, `"bank","vault"`), "0 or 1 audiences"),
		token(ask("null", `"bank"`), "not bound to a pod"),
		token(ask(strings.Replace(mine, "Pod", "Secret", 1), `"bank"`), "not bound to a pod"),
		token(ask(strings.Replace(mine, "p1", "", 1), `"bank"`), "without a uid"),
		token(ask(strings.Replace(mine, "p1", "p0", 1), `"bank"`), "does not match the UID in record"),
		token(ask(`{"apiVersion":"v1","kind":"Pod","name":"theirs","uid":"p2"}`, `"bank"`), "scheduled on a different node"),
		token(ask(strings.Replace(mine, "mine", "gone", 1), `"bank"`), "not found"),
		{"UPDATE", "/serviceaccounts", "acc", "{}", "{}", ""}, // the authorizer's business
	})
}

// With the option a token's audience is free. Whose pod it is for is not.
func TestNODEAZ_01_AnyAudience(t *testing.T) {
	token := func(pod, audiences, why string) write {
		return write{"CREATE", "/serviceaccounts/token", "acc", "", `{"spec":{"boundObjectRef":{"apiVersion":"v1","kind":"Pod",` + pod + `},"audiences":[` + audiences + `]}}`, why}
	}
	run(t, []write{
		token(`"name":"mine","uid":"p1"`, `"other"`, ""),
		token(`"name":"mine","uid":"p1"`, "", ""),
		token(`"name":"mine","uid":"p0"`, `"other"`, "does not match the UID in record"),
		token(`"name":"theirs","uid":"p2"`, `"other"`, "scheduled on a different node"),
	}, noderestriction.AnyAudience())
}

// request returns a request for a certificate.
func request(t *testing.T, signer, name string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	require.NoError(t, err)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	return fmt.Sprintf(`{"spec":{"signerName":%q,"request":%q}}`, signer, base64.StdEncoding.EncodeToString(text))
}

func TestNODEAZ_01_ANodeWritesOtherObjectsOfItsOwn(t *testing.T) {
	const lease, csi, slice, csr = "coordination.k8s.io/leases", "storage.k8s.io/csinodes", "resource.k8s.io/resourceslices", "certificates.k8s.io/certificatesigningrequests"
	named := func(name string) string { return `{"metadata":{"namespace":"kube-node-lease","name":"` + name + `"}}` }
	on := func(name string) string { return `{"spec":{"nodeName":"` + name + `"}}` }
	run(t, []write{
		{"CREATE", lease, "kube-node-lease/", "", named("n1"), ""},
		{"CREATE", lease, "kube-node-lease/", "", named("n2"), "same name as the requesting node"},
		{"UPDATE", lease, "kube-node-lease/n2", named("n2"), named("n2"), "same name as the requesting node"},
		{"CREATE", lease, "kube-system/", "", named("n1"), "kube-node-lease"},
		{"CREATE", csi, "", "", named("n1"), ""},
		{"CREATE", csi, "", "", named("n2"), "same name as the requesting node"},
		{"DELETE", csi, "n2", named("n2"), "", "same name as the requesting node"},
		{"CREATE", slice, "", "", on("n1"), ""},
		{"CREATE", slice, "", "", on("n2"), "same NodeName"},
		{"CREATE", slice, "", "", `{"spec":{"allNodes":true}}`, "same NodeName"},
		{"DELETE", slice, "s", on("n2"), "", "same NodeName"},
		{"UPDATE", slice, "s", on("n1"), on("n1"), ""},
		{"UPDATE", slice, "s", on("n1"), on("n2"), "same NodeName"},
		{"UPDATE", slice, "s", on("n1"), `{"spec":{"allNodes":true}}`, "same NodeName"},
		{"CREATE", csr, "", "", request(t, "kubernetes.io/kubelet-serving", "system:node:n1"), ""},
		{"CREATE", csr, "", "", request(t, "kubernetes.io/kube-apiserver-client-kubelet", "system:node:n2"), "CN=system:node:n1"},
		{"CREATE", csr, "", "", request(t, "example.com/other", "system:node:n2"), ""},
		{"CREATE", csr, "", "", `{"spec":{"signerName":"kubernetes.io/kubelet-serving","request":"bm8="}}`, "unable to parse csr"},
		{"UPDATE", csr, "c", "{}", "{}", ""},
	})
}

// What Kubernetes tests in test/integration/podcertificaterequests.
func TestNODEAZ_01_ANodeAsksForCertificatesOfItsPods(t *testing.T) {
	ask := func(node, nodeUID, pod, podUID, account, accountUID string) string {
		return fmt.Sprintf(`{"spec":{"nodeName":%q,"nodeUID":%q,"podName":%q,"podUID":%q,"serviceAccountName":%q,"serviceAccountUID":%q}}`,
			node, nodeUID, pod, podUID, account, accountUID)
	}
	const of = "certificates.k8s.io/podcertificaterequests"
	run(t, []write{
		{"CREATE", of, "", "", ask("n1", "u1", "certain", "p6", "acc", "a1"), ""},
		{"CREATE", of, "", "", ask("n2", "u1", "certain", "p6", "acc", "a1"), `which is not the requesting node "n1"`},
		{"CREATE", of, "", "", ask("n1", "u2", "certain", "p6", "acc", "a1"), otherUID},
		{"CREATE", of, "", "", ask("n1", "u1", "none", "p6", "acc", "a1"), "not found"},
		{"CREATE", of, "", "", ask("n1", "u1", "certain", "p7", "acc", "a1"), otherUID},
		{"CREATE", of, "", "", ask("n1", "u1", "theirs", "p2", "", "a1"), `pod "a/theirs" is not running on node "n1"`},
		{"CREATE", of, "", "", ask("n1", "u1", "image", "p5", "acc", "a1"), "is a mirror pod"},
		{"CREATE", of, "", "", ask("n1", "u1", "certain", "p6", "other", "a1"), "that differs from running pod"},
		{"CREATE", of, "", "", ask("n1", "u1", "certain", "p6", "acc", "a2"), otherUID},
		{"UPDATE", of, "r", "", ask("n1", "u1", "certain", "p6", "acc", "a1"), "may only create"},
		{"UPDATE", of + "/status", "r", "", ask("n1", "u1", "certain", "p6", "acc", "a1"), "may only create"},
		{"DELETE", of, "r", ask("n1", "u1", "certain", "p6", "acc", "a1"), "", "may only create"},
	})
}

// S22: each label is looked at once, however many there are.
func TestS22_ManyLabelsOfANode(t *testing.T) {
	var labels strings.Builder
	n := effort.Of(400_000)
	for i := range n {
		fmt.Fprintf(&labels, `,"kubernetes.io/%d":""`, i)
	}
	chain, err := admission.NewChain(noderestriction.Plugin(""))
	require.NoError(t, err)
	w := write{op: "UPDATE", of: "/nodes", name: "n1", old: labelled(`"kubernetes.io/gone":""`), now: labelled(labels.String()[1:])}
	_, _, err = chain.Mutate(t.Context(), w.request(authn.User{Name: "system:node:n1", Groups: []string{"system:nodes"}}))
	require.Equal(t, meta.ReasonForbidden, status.ReasonOf(err))
	require.Equal(t, n, strings.Count(err.Error(), ", kubernetes.io/"), "and the first one")
}
