package client

import (
	"fmt"
	"reflect"

	"github.com/kindwright/kindwright/meta"
)

// Resource says where the objects of a kind are found and that they decode into T. A
// registry.Kind[T] provides one. For a kind that another server defines, write it down:
//
//	var nodes = client.Resource[Node]{Version: "v1", Plural: "nodes", ClusterScoped: true}
type Resource[T any] struct {
	Group   string // "" is the core group
	Version string // such as "v1"
	Plural  string // the name in URLs

	// Kind is set in objects that do not name their kind. Default: the name of T.
	Kind string

	ClusterScoped bool // default: objects live in namespaces
}

// ClientResource returns r, so that a Resource is a Kind.
func (r Resource[T]) ClientResource() Resource[T] { return r }

// A Kind knows where its objects are found and which Go type they have. Resource and registry.Kind
// implement it.
type Kind[T any] interface {
	ClientResource() Resource[T]
}

var _ Kind[struct{}] = Resource[struct{}]{}

// place is a Resource without its Go type. It has what URLs and documents need.
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

// collection returns the path of the objects of one namespace, or of all objects if namespace is
// "". Cluster-scoped kinds have only the latter.
func (p place) collection(namespace string) ([]string, error) {
	path := []string{"apis", p.resource.Group, p.version}
	if p.resource.Group == "" {
		path = []string{"api", p.version}
	}
	if namespace != "" {
		if p.clusterScoped {
			return nil, fmt.Errorf("client: %s are cluster-scoped, but the namespace is %q", p.resource, namespace)
		}
		if why := meta.CheckPathSegment(namespace); why != "" {
			return nil, fmt.Errorf("client: %s: namespace %q %s", p.resource, namespace, why)
		}
		path = append(path, "namespaces", namespace)
	}
	return append(path, p.resource.Resource), nil
}

// object returns the path of one object. It rejects an incomplete key: the path would be that of a
// collection, and the delete of one object would delete all of them.
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
