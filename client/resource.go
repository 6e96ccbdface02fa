package client

import (
	"fmt"
	"reflect"

	"github.com/kindwright/kindwright/meta"
)

// Resource says where the objects of a kind are found, and that they are read into T. A
// registry.Kind[T] gives one; for a kind that somebody else's server defines, write it down:
//
//	var nodes = client.Resource[Node]{Version: "v1", Plural: "nodes", ClusterScoped: true}
type Resource[T any] struct {
	Group   string // "" is the core group
	Version string // such as "v1"
	Plural  string // the name in URLs

	// Kind is written into objects that do not say what they are. Default: the name of T.
	Kind string

	ClusterScoped bool // default: objects live in namespaces
}

// ClientResource makes a Resource a Kind.
func (r Resource[T]) ClientResource() Resource[T] { return r }

// A Kind knows where its objects are found and what Go type they have: a Resource, or a
// registry.Kind.
type Kind[T any] interface {
	ClientResource() Resource[T]
}

var _ Kind[struct{}] = Resource[struct{}]{}

// place is a Resource without its type: what URLs and documents are made of.
type place struct {
	resource      meta.GroupResource
	version, kind string
	clusterScoped bool
}

func placeOf[T any](r Resource[T]) (place, error) {
	p := place{
		resource:      meta.GroupResource{Group: r.Group, Resource: r.Plural},
		version:       r.Version,
		kind:          r.Kind,
		clusterScoped: r.ClusterScoped,
	}
	if p.kind == "" {
		p.kind = reflect.TypeFor[T]().Name()
	}
	for _, part := range []struct{ what, value string }{{"group", r.Group}, {"version", r.Version}, {"plural name", r.Plural}} {
		if part.value == "" && part.what == "group" {
			continue
		}
		if why := meta.CheckDNSSubdomain(part.value); why != "" {
			return p, fmt.Errorf("client: resource of %s: the %s %q %s", reflect.TypeFor[T](), part.what, part.value, why)
		}
	}
	return p, nil
}

func (p place) apiVersion() string {
	return meta.GroupVersion{Group: p.resource.Group, Version: p.version}.String()
}

// collection is the path of the objects of one namespace; "" means all of them, and is all there is
// for cluster-scoped kinds.
func (p place) collection(namespace string) ([]string, error) {
	path := []string{"apis", p.resource.Group, p.version}
	if p.resource.Group == "" {
		path = []string{"api", p.version}
	}
	if namespace != "" {
		if p.clusterScoped {
			return nil, fmt.Errorf("client: %s are not in namespaces, and %q was given", p.resource, namespace)
		}
		if why := meta.CheckPathSegment(namespace); why != "" {
			return nil, fmt.Errorf("client: %s: namespace %q %s", p.resource, namespace, why)
		}
		path = append(path, "namespaces", namespace)
	}
	return append(path, p.resource.Resource), nil
}

// object is the path of one object. A key that is not complete would make it the path of a
// collection, and a delete of one object the delete of all, so it is refused.
func (p place) object(key meta.Key) ([]string, error) {
	switch {
	case key.Name == "":
		return nil, fmt.Errorf("client: %s: the name is missing", p.resource)
	case key.Namespace == "" && !p.clusterScoped:
		return nil, fmt.Errorf("client: %s %q: the namespace is missing", p.resource, key.Name)
	}
	if why := meta.CheckPathSegment(key.Name); why != "" {
		return nil, fmt.Errorf("client: %s: name %q %s", p.resource, key.Name, why)
	}
	path, err := p.collection(key.Namespace)
	return append(path, key.Name), err
}
