package node

import (
	"context"
	"fmt"
	"slices"

	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/meta"
)

// leases is the namespace of the leases that nodes renew to show that they live.
const leases = "kube-node-lease"

// asked is a question of a node.
type asked struct {
	*authz.Attributes

	graph Graph
	node  string
}

// rule returns whether a node may do something, and why not.
type rule func(q asked) (ok bool, why string)

// kubelets decides about nodes by one rule for each resource.
type kubelets struct {
	graph Graph
	rules map[meta.GroupResource]rule
}

// Authorize allows what the kubelet of a node needs. It has no opinion about everything else, and
// about other users; it never denies, as other authorizers may give nodes more.
// Source: NODEAZ-01, NODEAZ-02.
func (z *kubelets) Authorize(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
	name, is := a.User.Node()
	switch {
	case !is || !a.ResourceRequest:
		return authz.NoOpinion, "", nil
	case name == "":
		return authz.NoOpinion, fmt.Sprintf("unknown node for user %q", a.User.Name), nil
	}
	rule := z.rules[meta.GroupResource{Group: a.Group, Resource: a.Resource}]
	if rule == nil {
		return authz.NoOpinion, "", nil
	}
	if ok, why := rule(asked{&a, z.graph, name}); !ok {
		return authz.NoOpinion, why, nil
	}
	return authz.Allow, "", nil
}

// newKubelets has the rules of kube-apiserver 1.36 with its default features, and some more.
func newKubelets(g Graph, domain string, more extras) *kubelets {
	core := func(resource string) meta.GroupResource { return meta.GroupResource{Resource: resource} }
	in := func(group, resource string) meta.GroupResource {
		return meta.GroupResource{Group: group + "." + domain, Resource: resource}
	}
	read := []string{"get", "list", "watch"}
	rules := map[meta.GroupResource]rule{
		core("secrets"):                                  readRelated,
		core("configmaps"):                               readRelated,
		core("persistentvolumeclaims"):                   claim,
		core("persistentvolumes"):                        getRelated,
		core("serviceaccounts"):                          account,
		core("nodes"):                                    ownNode,
		core("pods"):                                     pod,
		in("resource", "resourceclaims"):                 getRelated,
		in("resource", "resourceslices"):                 deviceSlice,
		in("storage", "volumeattachments"):               getRelated,
		in("storage", "csinodes"):                        ownCSINode,
		in("coordination", "leases"):                     ownLease,
		core("services"):                                 always(read...),
		core("endpoints"):                                always("get"),
		core("events"):                                   always("create", "update", "patch"),
		in("events", "events"):                           always("create", "update", "patch"),
		in("storage", "csidrivers"):                      always(read...),
		in("node", "runtimeclasses"):                     always(read...),
		in("authentication", "tokenreviews"):             always("create"),
		in("authorization", "subjectaccessreviews"):      always("create"),
		in("authorization", "localsubjectaccessreviews"): always("create"),
		in("certificates", "certificatesigningrequests"): always("create", "get", "list", "watch"),
	}
	if more.trustBundles {
		rules[in("certificates", "clustertrustbundles")] = always(read...)
	}
	if more.podCertificates {
		rules[in("certificates", "podcertificaterequests")] = podCertificate
	}
	return &kubelets{g, rules}
}

// always allows verbs for every object of a kind, but for none of its subresources.
func always(verbs ...string) rule {
	return func(q asked) (bool, string) { return q.Subresource == "" && slices.Contains(verbs, q.Verb), "" }
}

// related asks the graph about the object of the question.
func related(q asked) (bool, string) {
	if q.Name == "" {
		return false, "No Object name found"
	}
	if q.graph.Related(q.node, meta.GroupResource{Group: q.Group, Resource: q.Resource}, q.Namespace, q.Name) {
		return true, ""
	}
	return false, fmt.Sprintf("no relationship found between node '%s' and this object", q.node)
}

// getRelated allows to get single objects.
func getRelated(q asked) (bool, string) {
	switch {
	case q.Verb != "get":
		return false, "can only get individual resources of this type"
	case q.Subresource != "":
		return false, "cannot get subresource"
	}
	return related(q)
}

// readRelated allows to get an object, and to list and watch it by a field selector that names it.
func readRelated(q asked) (bool, string) {
	switch {
	case q.Verb != "get" && q.Verb != "list" && q.Verb != "watch":
		return false, "can only read resources of this type"
	case q.Subresource != "":
		return false, "cannot read subresource"
	case q.Namespace == "":
		return false, "can only read namespaced object of this type"
	}
	return related(q)
}

// claim allows to read a claim and to report the progress of its expansion.
func claim(q asked) (bool, string) {
	if q.Subresource != "status" {
		return getRelated(q)
	}
	if q.Verb != "update" && q.Verb != "patch" {
		return false, "can only get/update/patch this type"
	}
	return related(q)
}

// account allows to get an account of a pod on the node, and to ask for a token of it. The plugin
// NodeRestriction requires that the token is bound to such a pod.
func account(q asked) (bool, string) {
	switch {
	case q.Verb == "get" && q.Subresource == "":
		return readRelated(q)
	case q.Verb != "create" || q.Name == "":
		return false, "can only create tokens for individual service accounts"
	case q.Subresource != "token":
		return false, "can only create token subresource of serviceaccount"
	}
	return related(q)
}

// ownNode allows to register the node and to report its state. The names of what is written are
// checked by the plugin NodeRestriction, which also sees the name on creation.
func ownNode(q asked) (bool, string) {
	switch q.Subresource + "/" + q.Verb {
	case "/create", "/update", "/patch", "status/update", "status/patch":
		return true, ""
	case "/get", "/list", "/watch":
		switch q.Name { // compared rather than asked of the graph, for a node that has yet to register
		case q.node:
			return true, ""
		case "":
			return false, fmt.Sprintf("node '%s' cannot read all nodes, only its own Node object", q.node)
		}
		return false, fmt.Sprintf("node '%s' cannot read '%s', only its own Node object", q.node, q.Name)
	}
	return false, ""
}

// selectsOwn reports whether a field selector keeps a list to objects of the node.
func (q asked) selectsOwn() bool {
	on, ok := q.Fields.Exact("spec.nodeName")
	return ok && on == q.node
}

// pod allows to read the pods of the node, to create and delete mirror pods, to report their state
// and to evict them. The plugin NodeRestriction keeps the writes to the node's own.
func pod(q asked) (bool, string) {
	switch q.Subresource + "/" + q.Verb {
	case "/create", "/delete", "status/update", "status/patch", "eviction/create":
		return true, ""
	case "/get":
		return related(q)
	case "/list", "/watch":
		switch {
		case q.selectsOwn():
			return true, ""
		case q.Name != "":
			return related(q)
		}
		return false, "can only list/watch pods with spec.nodeName field selector"
	}
	return false, ""
}

// deviceSlice allows what the drivers of devices on the node need.
func deviceSlice(q asked) (bool, string) {
	if q.Subresource != "" {
		return false, "cannot authorize ResourceSlice subresources"
	}
	switch q.Verb {
	case "create":
		return true, "" // NodeRestriction sees the node that it is for
	case "get", "update", "patch", "delete":
		return related(q)
	case "watch", "list", "deletecollection":
		if q.selectsOwn() {
			return true, ""
		}
		return false, "can only list/watch/deletecollection resourceslices with nodeName field selector"
	}
	return false, "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection"
}

// podCertificate allows to ask for certificates of pods, and to read what became of it.
func podCertificate(q asked) (bool, string) {
	if q.Subresource != "" {
		return false, "nodes may not access the status subresource of PodCertificateRequests"
	}
	switch q.Verb {
	case "create":
		return true, "" // NodeRestriction sees the pod that it is for
	case "get":
		return related(q)
	case "list", "watch":
		if q.selectsOwn() {
			return true, ""
		}
		return false, "can only list/watch podcertificaterequests with nodeName field selector"
	}
	return false, fmt.Sprintf("nodes may not %s podcertificaterequests", q.Verb)
}

// ofOwn reports whether a verb is one of those for single objects, and allowed: the object has the
// name of the node. A creation does not tell its name; the plugin NodeRestriction checks it.
func (q asked) ofOwn(one, plain string) (bool, string) {
	switch q.Verb {
	case "get", "create", "update", "patch", "delete":
	default:
		return false, "can only get, create, update, patch, or delete " + one
	}
	if q.Verb != "create" && q.Name != q.node {
		return false, "can only access " + plain + " with the same name as the requesting node"
	}
	return true, ""
}

func ownCSINode(q asked) (bool, string) {
	if q.Subresource != "" {
		return false, "cannot authorize CSINode subresources"
	}
	return q.ofOwn("a CSINode", "CSINode")
}

func ownLease(q asked) (bool, string) {
	if q.Namespace != leases {
		return false, fmt.Sprintf("can only access leases in the %q system namespace", leases)
	}
	return q.ofOwn("a node lease", "node lease")
}
