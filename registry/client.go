package registry

import (
	"github.com/kindwright/kindwright/client"
)

// ClientResource makes a Kind all that a client needs to know of it: client.For(httpClient, Widgets).
func (k Kind[T]) ClientResource() client.Resource[T] {
	return client.Resource[T]{Group: k.Group, Version: k.Version, Plural: k.Plural, Kind: k.Names.Kind, ClusterScoped: k.Scope == ClusterScoped}
}

// ClientResource makes a VirtualKind all that a client needs to know of it; Create is the only verb.
func (k VirtualKind[T]) ClientResource() client.Resource[T] {
	return client.Resource[T]{Group: k.Group, Version: k.Version, Plural: k.Plural, Kind: k.Names.Kind, ClusterScoped: !k.Namespaced}
}

var (
	_ client.Kind[struct{}] = Kind[struct{}]{}
	_ client.Kind[struct{}] = VirtualKind[struct{}]{}
)
