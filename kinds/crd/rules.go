package crd

import (
	"context"

	"github.com/kindwright/kindwright/status"
)

// check reports what is wrong with a definition.
func check(_ context.Context, c *CustomResourceDefinition, f *status.Fields) {
	if want := c.Spec.Names.Plural + "." + c.Spec.Group; c.Name != want {
		f.At("metadata", "name").Invalid(c.Name, "must be spec.names.plural+\".\"+spec.group")
	}
	if s := c.Spec.Scope; s != "Namespaced" && s != "Cluster" {
		f.At("spec", "scope").NotSupported(s, "Cluster", "Namespaced")
	}
	stored := 0
	for _, v := range c.Spec.Versions {
		if v.Storage {
			stored++
		}
	}
	if stored != 1 {
		f.At("spec", "versions").Invalid(len(c.Spec.Versions), "must have exactly one version marked as storage version")
	}
}
