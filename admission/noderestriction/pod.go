package noderestriction

import (
	"context"
	"slices"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
)

// mirror is the annotation of a pod that stands for one of which only its node knows.
const mirror = "kubernetes.io/config.mirror"

func checkPod(ctx context.Context, q asked) error {
	switch {
	case q.Subresource == "eviction":
		return checkEviction(ctx, q)
	case q.Subresource == "status":
		return checkPodStatus(q)
	case q.Subresource != "":
		return q.forbid("unexpected pod subresource %q, only 'status' and 'eviction' are allowed", q.Subresource)
	case q.Operation == admission.Create:
		return checkMirror(ctx, q)
	case q.Operation != admission.Delete:
		return q.forbid("unexpected operation %q, node %q can only create and delete mirror pods", q.Operation, q.node)
	case nodeOf(q.OldObject) != q.node:
		return q.forbid("node %q can only delete pods with spec.nodeName set to itself", q.node)
	}
	return nil
}

func nodeOf(pod map[string]any) string { return tree.Text(pod, "spec", "nodeName") }

// checkMirror checks a new pod. It stands for a pod that runs on the node already, belongs to the
// node, and names no other object: what a pod names, its node may read.
func checkMirror(ctx context.Context, q asked) error {
	pod := q.Object
	if _, is := tree.Map(pod, "metadata", "annotations")[mirror]; !is {
		return q.forbid("pod does not have %q annotation, node %q can only create mirror pods", mirror, q.node)
	}
	if nodeOf(pod) != q.node {
		return q.forbid("node %q can only create pods with spec.nodeName set to itself", q.node)
	}
	owners := tree.List(pod, "metadata", "ownerReferences")
	if len(owners) > 1 {
		return q.forbid("node %q can only create pods with a single owner reference set to itself", q.node)
	}
	var owner map[string]any
	if len(owners) == 1 {
		owner, _ = owners[0].(map[string]any)
	}
	switch {
	case tree.Text(owner, "apiVersion") != "v1", tree.Text(owner, "kind") != "Node", tree.Text(owner, "name") != q.node:
		return q.forbid("node %q can only create pods with an owner reference set to itself", q.node)
	case owner["controller"] != true:
		return q.forbid("node %q can only create pods with a controller owner reference set to itself", q.node)
	case owner["blockOwnerDeletion"] == true:
		return q.forbid("node %q must not set blockOwnerDeletion on an owner reference", q.node)
	}
	node, err := q.get(ctx, core("nodes"), "", q.node)
	if err != nil {
		return err
	}
	if want, got := tree.Text(node, "metadata", "uid"), tree.Text(owner, "uid"); want != got {
		return q.forbid("node %s UID mismatch: expected %s got %s", q.node, got, want)
	}
	if what := uses(pod); what != "" {
		return q.forbid("node %q can not create pods that reference %s", q.node, what)
	}
	return nil
}

// plainVolumes are the sources of volumes that name no object of the API.
func plainVolumes() []string {
	return []string{
		"awsElasticBlockStore", "azureDisk", "cephfs", "cinder", "downwardAPI", "emptyDir", "fc", "flexVolume", "flocker",
		"gcePersistentDisk", "gitRepo", "hostPath", "image", "iscsi", "nfs", "photonPersistentDisk", "portworxVolume", "quobyte",
		"rbd", "scaleIO", "storageos", "vsphereVolume",
	}
}

// uses says which objects a pod names, "" if it names none. A volume of an unknown kind counts as
// one that does.
func uses(pod map[string]any) string {
	spec := tree.Map(pod, "spec")
	if tree.Text(spec, "serviceAccountName") != "" || tree.Text(spec, "serviceAccount") != "" {
		return "serviceaccounts"
	}
	if len(tree.List(spec, "imagePullSecrets")) > 0 {
		return "secrets"
	}
	for _, field := range []string{"initContainers", "containers", "ephemeralContainers"} {
		for _, c := range tree.List(spec, field) {
			if what := containerUses(c); what != "" {
				return what
			}
		}
	}
	if len(tree.List(spec, "resourceClaims")) > 0 || tree.At(pod, "status", "extendedResourceClaimStatus") != nil { // CVE-2025-4563
		return "resourceclaims"
	}
	for _, v := range tree.List(spec, "volumes") {
		volume, _ := v.(map[string]any)
		for source, content := range volume {
			if source == "name" || content == nil {
				continue
			}
			if what := volumeUses(source, content); what != "" {
				return what
			}
		}
	}
	return ""
}

func containerUses(c any) string {
	container, _ := c.(map[string]any)
	for _, e := range tree.List(container, "env") {
		one, _ := e.(map[string]any)
		from := tree.Map(one, "valueFrom")
		if from["secretKeyRef"] != nil {
			return "secrets"
		} else if from["configMapKeyRef"] != nil {
			return "configmaps"
		}
	}
	for _, e := range tree.List(container, "envFrom") {
		from, _ := e.(map[string]any)
		if from["secretRef"] != nil {
			return "secrets"
		} else if from["configMapRef"] != nil {
			return "configmaps"
		}
	}
	return ""
}

func volumeUses(source string, content any) string {
	body, _ := content.(map[string]any)
	if source == "projected" {
		for _, s := range tree.List(body, "sources") {
			one, _ := s.(map[string]any)
			for from, inner := range one {
				if inner != nil && from != "downwardAPI" {
					return projected(from)
				}
			}
		}
		return ""
	}
	for _, secret := range []string{"secretRef", "nodePublishSecretRef"} {
		if body[secret] != nil {
			return "secrets (via " + source + " volumes)"
		}
	}
	if slices.Contains(plainVolumes(), source) {
		return ""
	}
	switch source {
	case "configMap":
		return "configmaps (via configmap volumes)"
	case "secret":
		return "secrets (via secret volumes)"
	case "csi":
		return "csidrivers (via CSI volumes)"
	case "glusterfs":
		return "endpoints (via glusterFS volumes)"
	case "persistentVolumeClaim":
		return "persistentvolumeclaims"
	case "ephemeral":
		return "persistentvolumeclaims (via ephemeral volumes)"
	case "azureFile":
		return "secrets (via azureFile volumes)"
	}
	return "other objects (via volumes of an unknown kind)"
}

func projected(from string) string {
	switch from {
	case "configMap":
		return "configmaps (via projected volumes)"
	case "secret":
		return "secrets (via projected volumes)"
	case "serviceAccountToken":
		return "serviceaccounts (via projected volumes)"
	case "clusterTrustBundle":
		return "clustertrustbundles"
	case "podCertificate":
		return "podcertificates"
	}
	return "other objects (via projected volumes)"
}

// checkPodStatus lets a node report the state of its pods. Labels choose the pods of services, and
// claims give rights, so both stay as they are.
func checkPodStatus(q asked) error {
	same := func(path ...string) bool {
		return sameList(q.Object, q.OldObject, path...)
	}
	switch {
	case q.Operation != admission.Update:
		return q.forbid("unexpected operation %q", q.Operation)
	case nodeOf(q.OldObject) != q.node:
		return q.forbid("node %q can only update pod status for pods with spec.nodeName set to itself", q.node)
	case !sameMap(q.Object, q.OldObject, "metadata", "labels"):
		return q.forbid("node %q cannot update labels through pod status", q.node)
	case !same("status", "resourceClaimStatuses"):
		return q.forbid("node %q cannot update resource claim statues", q.node)
	case !sameMap(q.Object, q.OldObject, "status", "extendedResourceClaimStatus"):
		return q.forbid("node %q cannot update extended resource claim status", q.node)
	}
	return nil
}

// sameMap compares two maps. One that is absent and one without members are the same.
func sameMap(a, b map[string]any, path ...string) bool {
	x, y := tree.Map(a, path...), tree.Map(b, path...)
	return len(x) == 0 && len(y) == 0 || json.Equal(x, y)
}

func checkEviction(ctx context.Context, q asked) error {
	if q.Operation != admission.Create {
		return q.forbid("unexpected operation %s", q.Operation)
	}
	name := q.Name
	if name == "" {
		name = tree.Text(q.Object, "metadata", "name")
	}
	if name == "" {
		return q.forbid("could not determine pod from request data")
	}
	pod, err := q.get(ctx, core("pods"), q.Namespace, name)
	if err != nil {
		return err
	}
	if nodeOf(pod) != q.node {
		return q.forbid("node %s can only evict pods with spec.nodeName set to itself", q.node)
	}
	return nil
}
