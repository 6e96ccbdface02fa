package kube

import (
	"reflect"

	"github.com/kindwright/kindwright/registry"
)

// withBeta serves a kind as v1beta1 too, where --runtime-config asks for it. B is the Go type of that version. Its
// documents are those of the stored version.
type withBeta[T, B any] struct {
	kind[T]

	deprecated *registry.Deprecation // of v1beta1
}

// deprecatedIn is the deprecation that the Go types of a version tell in their methods.
func deprecatedIn(release, removed string) *registry.Deprecation {
	return &registry.Deprecation{Since: release, Removed: removed}
}

// Define implements registry.Definition.
func (w withBeta[T, B]) Define(env registry.Env) (registry.Bundle, error) {
	k := w.kind
	k.Also = []registry.Form{registry.As(registry.Kind[B]{
		Group: k.Group, Version: "v1beta1", Plural: k.Plural, Names: k.Names, Scope: k.Scope, Table: k.Table,
		Status: registry.Status{Metadata: takenWithStatus(k.statusKeeps)}, Serving: registry.Serving{Optional: true, Deprecated: w.deprecated},
	}, recast[B, T], recast[T, B], nil)}
	b, err := k.Define(env)
	if err != nil {
		return b, err
	}
	return b, k.asWritten(b.Resources[1])
}

// recast returns an object as another Go type with the same documents.
func recast[From, To any](from *From) (*To, error) {
	t, err := treeOf(from, emptiesOf(reflect.TypeFor[From](), map[reflect.Type]*empties{}))
	if err != nil {
		return nil, err
	}
	return decode[To](t)
}
