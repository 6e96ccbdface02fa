package engine

import (
	"slices"

	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

// finalizers returns metadata.finalizers.
func finalizers(t registry.Tree) []string {
	var out []string
	for _, v := range tree.List(t, "metadata", "finalizers") {
		if s, ok := v.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// withFinalizer returns t with the finalizer name added, or t itself if it has the finalizer.
func withFinalizer(t registry.Tree, name string) registry.Tree {
	if slices.Contains(finalizers(t), name) {
		return t
	}
	old := tree.List(t, "metadata", "finalizers")
	return tree.With(t, append(slices.Clone(old), name), "metadata", "finalizers")
}

// deleting reports whether the object is marked for deletion.
func deleting(t registry.Tree) bool { return tree.Text(t, "metadata", "deletionTimestamp") != "" }

// identity returns the object's namespace and name.
func identity(t registry.Tree) meta.Key {
	return meta.Key{Namespace: tree.Text(t, "metadata", "namespace"), Name: tree.Text(t, "metadata", "name")}
}
