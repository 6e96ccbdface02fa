package kube

import (
	"cmp"
	"reflect"

	"github.com/kindwright/kindwright/registry"
)

// withBeta serves a kind in another version too, where --runtime-config asks for it. B is the Go type of that version.
// Its documents are those of the stored version.
type withBeta[T, B any] struct {
	kind[T]

	version    string                // v1beta1 unless it says something else
	deprecated *registry.Deprecation // of that version
}

// deprecatedIn is the deprecation that the Go types of a version tell in their methods.
func deprecatedIn(release, removed string) *registry.Deprecation {
	return &registry.Deprecation{Since: release, Removed: removed}
}

// Define implements registry.Definition.
func (w withBeta[T, B]) Define(env registry.Env) (registry.Bundle, error) {
	k := w.kind
	k.Also = []registry.Form{registry.As(registry.Kind[B]{
		Group: k.Group, Version: cmp.Or(w.version, "v1beta1"), Plural: k.Plural, Selectable: selectableOf[B](k.fields), Names: k.Names, Scope: k.Scope, Table: k.Table,
		Status: registry.Status{Metadata: takenWithStatus(k.statusKeeps)}, Serving: registry.Serving{Optional: true, Deprecated: w.deprecated},
	}, recast[B, T], recast[T, B], nil)}
	b, err := k.Define(env)
	if err != nil {
		return b, err
	}
	return b, k.asWritten(b.Resources[1])
}

// selectableOf are fields that selectors can name, for a form of a kind.
func selectableOf[B any](fields []string) map[string]func(*B) string {
	out := map[string]func(*B) string{}
	for _, field := range fields {
		out[field] = nil
	}
	return out
}

// recast returns an object as another Go type with the same documents.
func recast[From, To any](from *From) (*To, error) {
	t, err := treeOf(from, emptiesOf(reflect.TypeFor[From](), map[reflect.Type]*empties{}))
	if err != nil {
		return nil, err
	}
	return decode[To](t)
}
