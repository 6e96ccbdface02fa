package crd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

type specAsStored struct{}

// withSpecAsStored returns a context for writes of the status by the controller. They leave the spec as
// it is stored, which is canonical.
func withSpecAsStored(ctx context.Context) context.Context {
	return context.WithValue(ctx, specAsStored{}, true)
}

// canonical fills in the defaults of a definition and writes its spec as its Go type does. Keywords
// that no schema has are dropped also where an item or a property is described, which the schema of
// the kind itself cannot tell.
func canonical(ctx context.Context, t registry.Tree) (registry.Tree, error) {
	if ctx.Value(specAsStored{}) != nil {
		return t, nil
	}
	var c CustomResourceDefinition
	bare, asWritten := t, schemasAsWritten(t)
	if asWritten {
		bare = withoutSchemas(t)
	} else if f := strangeIn(t); f.Len() > 0 {
		of, _ := meta.ParseGroupVersion(tree.Text(t, "apiVersion"))
		return nil, status.Invalid(meta.GroupKind{Group: of.Group, Kind: tree.Text(t, "kind")}, tree.NameOf(t), f.Errors())
	}
	if err := json.FromTree(bare, &c); err != nil {
		return nil, status.BadRequest("CustomResourceDefinition in version \"v1\" cannot be handled as a CustomResourceDefinition: %v", err)
	}
	c.fill()
	spec, err := json.TreeOf(&c.Spec)
	if err != nil {
		return nil, err
	}
	if asWritten {
		putSchemas(spec, t)
	}
	if json.Equal(spec, t["spec"]) {
		return t, nil
	}
	return tree.With(t, spec, "spec"), nil
}

// fill sets the defaults that depend on other fields.
//
// Source: CRD-02, CRD-19.
func (c *CustomResourceDefinition) fill() {
	names := &c.Spec.Names
	if names.Singular == "" {
		names.Singular = strings.ToLower(names.Kind)
	}
	if names.ListKind == "" && names.Kind != "" {
		names.ListKind = names.Kind + "List"
	}
	if c.Spec.Conversion == nil {
		c.Spec.Conversion = &CustomResourceConversion{Strategy: "None"}
	}
	if client, _ := c.Spec.Conversion.parts(); client != nil && client.Service != nil && client.Service.Port == nil {
		port := int32(443)
		client.Service.Port = &port
	}
}

// completeStatus adds what the server sets in the status of a definition: the names that are accepted, which
// are blank at first, and the storage version to the versions in which objects were ever stored. Who
// has migrated the objects takes versions away, so a write of the status gets one only if none is left.
//
// Source: CRD-05.
func completeStatus(ctx context.Context, t, _ registry.Tree) (registry.Tree, error) {
	if tree.At(t, "status", "acceptedNames") == nil {
		t = tree.With(t, blankNames(), "status", "acceptedNames")
	}
	stored := tree.List(t, "status", "storedVersions")
	if registry.SubresourceFrom(ctx) != "" && len(stored) > 0 {
		return t, nil
	}
	for _, v := range tree.List(t, "spec", "versions") {
		version, _ := v.(map[string]any)
		if version["storage"] != true {
			continue
		}
		if !slices.Contains(stored, version["name"]) {
			t = tree.With(t, append(slices.Clone(stored), version["name"]), "status", "storedVersions")
		}
		break
	}
	return t, nil
}

// validateNew validates a new definition and warns of formats that nobody checks.
func validateNew(ctx context.Context, t registry.Tree, with compilers, f *status.Fields) {
	now, err := judge(t)
	if err != nil {
		f.At().Invalid("…", err.Error())
		return
	}
	found := f.Len()
	validate(ctx, now, nil, with, f)
	if f.Len() == found {
		warnOfFormats(ctx, now, nil)
	}
}

// validateChange validates a changed definition, and warns of formats that it did not have before. A
// write of the status is judged by that alone.
func validateChange(ctx context.Context, t, old registry.Tree, with compilers, f *status.Fields) {
	if registry.SubresourceFrom(ctx) != "" {
		var names CustomResourceDefinitionNames
		if json.FromTree(tree.Map(t, "status", "acceptedNames"), &names) == nil {
			validateNames(&names, f.At("status", "acceptedNames"))
		}
		return
	}
	now, err := judge(t)
	before, broken := judge(old)
	if err := errors.Join(err, broken); err != nil {
		f.At().Invalid("…", err.Error())
		return
	}
	found := f.Len()
	validate(ctx, now, before, with, f)
	if f.Len() == found {
		warnOfFormats(ctx, now, before)
	}
}

// warnOfFormats warns of formats in schemas that are not checked.
//
// Source: CRD-10.
func warnOfFormats(ctx context.Context, now, before *judged) {
	known := formatsIn(before.schemas())
	for _, format := range formatsIn(now.schemas()) {
		if !slices.Contains(known, format) {
			registry.Warn(ctx, fmt.Sprintf("unrecognized format %q", format))
		}
	}
}

// formatsIn returns the formats in schema documents that have no effect.
func formatsIn(documents []map[string]any) (formats []string) {
	for _, document := range documents {
		for _, format := range openapi.UnknownFormats(document) {
			if !slices.Contains(formats, format) {
				formats = append(formats, format)
			}
		}
	}
	return formats
}
