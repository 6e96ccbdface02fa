package kube

import (
	"reflect"

	"github.com/kindwright/kindwright/registry"
)

// withBeta serves a kind as v1beta1 too, where --runtime-config asks for it. B is the Go type of that version. Its
// documents are those of the stored version.
type withBeta[T, B any] struct{ kind[T] }

// Define implements registry.Definition.
func (w withBeta[T, B]) Define(env registry.Env) (registry.Bundle, error) {
	k := w.kind
	k.Also = []registry.Form{registry.As(registry.Kind[B]{
		Group: k.Group, Version: "v1beta1", Plural: k.Plural, Names: k.Names, Scope: k.Scope, Table: k.Table,
		Status: registry.Status{Metadata: takenWithStatus(k.statusKeeps)}, Serving: registry.Serving{Optional: true},
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
