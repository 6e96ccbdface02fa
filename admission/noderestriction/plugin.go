package noderestriction

import (
	"cmp"
	"context"
	"fmt"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// Name is the name of the plugin.
const Name = "NodeRestriction"

// Plugin returns the plugin. The domain is that of groups such as storage.k8s.io; "" means k8s.io.
//
// It judges what the node sends, before other plugins change it: a default that somebody else adds
// is not the node's doing. So give it first.
func Plugin(domain string, options ...Option) admission.Plugin {
	domain = cmp.Or(domain, "k8s.io")
	in := func(group, resource string) meta.GroupResource {
		return meta.GroupResource{Group: group + "." + domain, Resource: resource}
	}
	c := checker{domain: domain, checks: map[meta.GroupResource]check{
		{Resource: "pods"}: checkPod, {Resource: "nodes"}: checkNode, {Resource: "persistentvolumeclaims"}: checkClaim,
		{Resource: "serviceaccounts"}: checkToken, in("coordination", "leases"): checkLease, in("storage", "csinodes"): checkCSINode,
		in("resource", "resourceslices"): checkSlice, in("certificates", "certificatesigningrequests"): checkSigning,
		in("certificates", "podcertificaterequests"): checkPodCertificate,
	}}
	for _, o := range options {
		o(&c)
	}
	return admission.Plugin{
		Name:    Name,
		Rules:   []admission.Rule{{Operations: []admission.Operation{admission.Create, admission.Update, admission.Delete}}},
		Handles: c.handles,
		Mutator: admission.MutatorFunc(c.mutate),
	}
}

// An Option changes what the plugin checks.
type Option func(*checker)

// AnyAudience lets nodes ask for tokens of any audience for accounts of their pods, as before
// Kubernetes 1.33. Without it a pod must name the audience in a volume, or somebody must grant it.
func AnyAudience() Option {
	return func(c *checker) { c.anyAudience = true }
}

// asked is one write of a node.
type asked struct {
	*admission.Request

	node        string
	domain      string
	anyAudience bool
}

// check returns nil if a node may do a write.
type check func(ctx context.Context, q asked) error

type checker struct {
	domain      string
	checks      map[meta.GroupResource]check
	anyAudience bool
}

func (c checker) handles(t admission.Target) bool { return c.checks[t.Resource.GroupResource()] != nil }

// mutate changes nothing.
func (c checker) mutate(ctx context.Context, r *admission.Request) (map[string]any, error) {
	name, is := r.User.Node()
	if !is {
		return r.Object, nil
	}
	q := asked{r, name, c.domain, c.anyAudience}
	if name == "" {
		return nil, q.forbid("could not determine node from user %q", r.User.Name)
	}
	if err := c.checks[r.Resource.GroupResource()](ctx, q); err != nil {
		return nil, err
	}
	return r.Object, nil
}

func (q asked) forbid(format string, args ...any) error {
	return admission.Denied(q.Request, fmt.Sprintf(format, args...))
}

// get reads another object. Its absence is answered as such; other failures refuse the write.
func (q asked) get(ctx context.Context, of meta.GroupVersionResource, namespace, name string) (map[string]any, error) {
	if q.Server == nil {
		return nil, q.forbid("there is no server to ask about %s", of.GroupResource())
	}
	object, err := q.Server.Get(ctx, of, namespace, name)
	if err != nil && !status.IsNotFound(err) {
		return nil, q.forbid("cannot read %s %q", of.GroupResource(), name)
	}
	return object, err
}

func core(resource string) meta.GroupVersionResource {
	return meta.GroupVersionResource{Version: "v1", Resource: resource}
}

// nameOf returns the name of the object that is written. A creation by POST names it in the body.
func (q asked) nameOf() string {
	if q.Operation == admission.Create {
		return cmp.Or(tree.Text(q.Object, "metadata", "name"), q.Name)
	}
	return q.Name
}

func checkLease(_ context.Context, q asked) error {
	const namespace = "kube-node-lease"
	switch {
	case q.Namespace != namespace:
		return q.forbid("can only access leases in the %q system namespace", namespace)
	case q.nameOf() != q.node:
		return q.forbid("can only access node lease with the same name as the requesting node")
	}
	return nil
}

func checkCSINode(_ context.Context, q asked) error {
	if q.nameOf() != q.node {
		return q.forbid("can only access CSINode with the same name as the requesting node")
	}
	return nil
}

// checkPodCertificate lets a node ask for certificates of the pods that run on it. What may be a matter of
// time, as the uid of a pod that was made again, is no refusal: the node asks again.
func checkPodCertificate(ctx context.Context, q asked) error {
	if q.Operation != admission.Create || q.Subresource != "" {
		return q.forbid("nodes may only create PodCertificateRequests")
	}
	spec := tree.Map(q.Object, "spec")
	if on := tree.Text(spec, "nodeName"); on != q.node {
		return q.forbid("PodCertificateRequest.Spec.NodeName=%q, which is not the requesting node %q", on, q.node)
	}
	if _, err := q.same(ctx, "nodes", "", q.node, tree.Text(spec, "nodeUID")); err != nil {
		return err
	}
	name, account := tree.Text(spec, "podName"), tree.Text(spec, "serviceAccountName")
	pod, err := q.same(ctx, "pods", q.Namespace, name, tree.Text(spec, "podUID"))
	if err != nil {
		return err
	}
	switch {
	case nodeOf(pod) != q.node:
		return q.forbid("pod %q is not running on node %q named in the PodCertificateRequest", q.Namespace+"/"+name, q.node)
	case tree.At(pod, "metadata", "annotations", mirror) != nil:
		return q.forbid("pod %q is a mirror pod", q.Namespace+"/"+name)
	case tree.Text(pod, "spec", "serviceAccountName") != account:
		return q.forbid("PodCertificateRequest for pod %q contains serviceAccountName (%q) that differs from running pod", q.Namespace+"/"+name, account)
	}
	_, err = q.same(ctx, "serviceaccounts", q.Namespace, account, tree.Text(spec, "serviceAccountUID"))
	return err
}

// same returns an object if it has a uid.
func (q asked) same(ctx context.Context, of, namespace, name, uid string) (map[string]any, error) {
	object, err := q.get(ctx, core(of), namespace, name)
	if err != nil {
		return nil, err
	}
	if is := tree.Text(object, "metadata", "uid"); is != uid {
		why := fmt.Errorf("the request names %s %q with the uid %q, and there is one with the uid %q", of, name, uid, is)
		return nil, status.Internal(why).WithMessage(why.Error())
	}
	return object, nil
}

// checkSlice checks what the authorizer cannot: the object of a creation, what an update makes of one,
// and each object of a deletion of many.
func checkSlice(_ context.Context, q asked) error {
	switch {
	case q.Operation == admission.Create && tree.Text(q.Object, "spec", "nodeName") != q.node:
		return q.forbid("can only create ResourceSlice with the same NodeName as the requesting node")
	case q.Operation == admission.Update && tree.Text(q.Object, "spec", "nodeName") != q.node:
		return q.forbid("can only update ResourceSlice with the same NodeName as the requesting node")
	case q.Operation == admission.Delete && tree.Text(q.OldObject, "spec", "nodeName") != q.node:
		return q.forbid("can only delete ResourceSlice with the same NodeName as the requesting node")
	}
	return nil
}
