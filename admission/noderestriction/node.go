package noderestriction

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
)

// checkNode keeps a node to its own Node object, and from steering workloads to itself.
func checkNode(_ context.Context, q asked) error {
	if name := q.nameOf(); name != q.node {
		return q.forbid("node %q is not allowed to modify node %q", q.node, name)
	}
	now, before := q.Object, q.OldObject
	switch q.Operation {
	case admission.Create:
		if tree.At(now, "spec", "configSource") != nil {
			return q.forbid("node %q is not allowed to create pods with a non-nil configSource", q.node)
		}
		if bad := forbiddenLabels(now, nil); len(bad) > 0 {
			return q.forbid("node %q is not allowed to set the following labels: %s", q.node, strings.Join(bad, ", "))
		}
	case admission.Update:
		source := tree.At(now, "spec", "configSource")
		switch bad := forbiddenLabels(now, before); {
		case source != nil && !json.Equal(source, tree.At(before, "spec", "configSource")):
			return q.forbid("node %q is not allowed to update configSource to a new non-nil configSource", q.node)
		case !sameList(now, before, "spec", "taints"):
			return q.forbid("node %q is not allowed to modify taints", q.node)
		case !sameList(now, before, "metadata", "ownerReferences"): // CVE-2025-5187
			return q.forbid("node %q is not allowed to modify ownerReferences", q.node)
		case len(bad) > 0:
			return q.forbid("is not allowed to modify labels: %s", strings.Join(bad, ", "))
		}
	}
	return nil
}

// sameList compares two lists. One that is absent and one without members are the same.
func sameList(a, b map[string]any, path ...string) bool {
	x, y := tree.List(a, path...), tree.List(b, path...)
	return len(x) == 0 && len(y) == 0 || json.Equal(x, y)
}

// kubeletLabels are labels of Kubernetes' own namespaces that nodes set on their objects.
const kubeletLabels = ` kubernetes.io/hostname topology.kubernetes.io/zone topology.kubernetes.io/region
	failure-domain.beta.kubernetes.io/zone failure-domain.beta.kubernetes.io/region
	beta.kubernetes.io/instance-type node.kubernetes.io/instance-type
	kubernetes.io/os kubernetes.io/arch beta.kubernetes.io/os beta.kubernetes.io/arch `

// forbiddenLabels returns the labels that differ and that a node must not add, change or remove.
func forbiddenLabels(now, before map[string]any) []string {
	a, b := tree.Map(now, "metadata", "labels"), tree.Map(before, "metadata", "labels")
	var out []string
	check := func(key string) {
		if !mayLabel(key) {
			out = append(out, key)
		}
	}
	for key, v := range a {
		if old, has := b[key]; !has || old != v {
			check(key)
		}
	}
	for key := range b {
		if _, has := a[key]; !has {
			check(key)
		}
	}
	slices.Sort(out)
	return out
}

// mayLabel reports whether a node may set a label. Labels outside of Kubernetes' own namespaces are
// free, except those of node-restriction.kubernetes.io, which exist to be trusted.
func mayLabel(key string) bool {
	namespace, _, found := strings.Cut(key, "/")
	within := func(domain string) bool { return namespace == domain || strings.HasSuffix(namespace, "."+domain) }
	switch {
	case !found:
		return true
	case within("node-restriction.kubernetes.io"):
		return false
	case !within("kubernetes.io") && !within("k8s.io"):
		return true
	}
	return within("kubelet.kubernetes.io") || within("node.kubernetes.io") ||
		slices.Contains(strings.Fields(kubeletLabels), key)
}

// checkClaim lets a node report the progress of an expansion, and nothing else.
func checkClaim(_ context.Context, q asked) error {
	if q.Subresource != "status" {
		return q.forbid("may only update PVC status")
	}
	if q.Operation != admission.Update {
		return q.forbid("unexpected operation %q", q.Operation)
	}
	reported := func(t map[string]any) map[string]any {
		for _, field := range []string{"capacity", "conditions", "allocatedResources", "allocatedResourceStatuses"} {
			t = tree.Prune(t, "status", field)
		}
		return tree.Without(tree.Without(t, "metadata", "resourceVersion"), "metadata", "managedFields")
	}
	if !json.Equal(reported(q.Object), reported(q.OldObject)) {
		return q.forbid("node %q is not allowed to update fields other than status.quantity and status.conditions", q.node)
	}
	return nil
}

// checkSigning keeps a node from asking for the certificate of another.
func checkSigning(_ context.Context, q asked) error {
	if q.Operation != admission.Create {
		return nil
	}
	switch strings.TrimPrefix(tree.Text(q.Object, "spec", "signerName"), "kubernetes.io/") {
	case "kubelet-serving", "kube-apiserver-client-kubelet":
	default:
		return nil
	}
	text, err := base64.StdEncoding.DecodeString(tree.Text(q.Object, "spec", "request"))
	block, _ := pem.Decode(text)
	if err != nil || block == nil || block.Type != "CERTIFICATE REQUEST" {
		return q.forbid("unable to parse csr: PEM block type must be CERTIFICATE REQUEST")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return q.forbid("unable to parse csr: %v", err)
	}
	if want := authn.NodePrefix + q.node; request.Subject.CommonName != want {
		return q.forbid("can only create a node CSR with CN=%s", want)
	}
	return nil
}
