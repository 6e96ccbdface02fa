package node

import (
	"cmp"
	"context"
	"fmt"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/watch"
)

// DefaultGroupDomain is the domain of Kubernetes' own groups.
const DefaultGroupDomain = "k8s.io"

// Graph knows which objects belong to a node. It is safe for concurrent use.
type Graph interface {
	// Related reports whether a node may read an object: the object is a pod on the node, or
	// something that such a pod uses. The namespace is empty for cluster-scoped objects. An unknown
	// node or object is not related.
	Related(node string, of meta.GroupResource, namespace, name string) bool
}

// Authorizer is the authorizer of a server. It is a description until the server binds it, and
// allows nothing before.
type Authorizer struct {
	domain string
	extras extras
}

// New returns an authorizer for kindwright.Authorize. The domain is that of groups such as
// storage.k8s.io; "" means [DefaultGroupDomain].
func New(domain string, options ...Option) *Authorizer {
	return &Authorizer{cmp.Or(domain, DefaultGroupDomain), chosen(options)}
}

// An Option gives nodes a right that they do not have by default.
type Option func(*extras)

// extras are the rights of features that kube-apiserver has off by default.
type extras struct{ trustBundles, podCertificates bool }

// TrustBundles lets nodes read ClusterTrustBundles.
func TrustBundles() Option { return func(e *extras) { e.trustBundles = true } }

// PodCertificates lets nodes ask for certificates of their pods. The plugin NodeRestriction checks
// that the pods are theirs.
func PodCertificates() Option { return func(e *extras) { e.podCertificates = true } }

func chosen(options []Option) (e extras) {
	for _, o := range options {
		o(&e)
	}
	return e
}

// Name returns "node".
func (*Authorizer) Name() string { return "node" }

// Authorize fails: only a server's bound authorizer knows which pods a node has.
func (*Authorizer) Authorize(context.Context, authz.Attributes) (authz.Decision, string, error) {
	return authz.Deny, "", fmt.Errorf("%w: the node authorizer is not bound to a server", authz.ErrUnavailable)
}

// Bind returns the authorizer for one server.
func (z *Authorizer) Bind(b watch.Binding) (authz.Authorizer, error) {
	x := NewIndex(z.domain)
	for of := range x.reads() {
		if err := b.Observe(of, watch.IfServed(&feed{x, of})); err != nil {
			return nil, err
		}
	}
	return newKubelets(x, z.domain, z.extras), nil
}

// With returns an authorizer that asks a graph. The domain and the options are as for [New].
func With(g Graph, domain string, options ...Option) authz.Authorizer {
	return newKubelets(g, cmp.Or(domain, DefaultGroupDomain), chosen(options))
}

// Rules says that the rules of a node cannot be listed: they depend on its pods. Other users have
// none.
func (*kubelets) Rules(_ context.Context, u authn.User, _ string) (authz.Rules, error) {
	if _, is := u.Node(); is {
		return authz.Rules{Incomplete: true, Why: "node authorizer does not support user rule resolution"}, nil
	}
	return authz.Rules{}, nil
}

var (
	_ authz.Authorizer                 = (*Authorizer)(nil)
	_ watch.Bindable[authz.Authorizer] = (*Authorizer)(nil)
	_ authz.Authorizer                 = (*kubelets)(nil)
	_ authz.RuleResolver               = (*kubelets)(nil)
)
