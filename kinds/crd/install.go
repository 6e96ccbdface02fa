package crd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"reflect"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/yaml"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// Server is a started server with [Kinds], such as a *kindwright.Server.
type Server interface {
	Engine() registry.Objects
}

// Install applies the definitions in YAML or JSON files to a server and waits until their kinds are
// served as the files say. It skips documents of other kinds, and fails if there is no definition, if
// a definition has an unknown field, or if names of it belong to another kind.
//
// Patterns are those of fs.Glob; without patterns Install reads all .yaml, .yml and .json files below
// the root. It waits until ctx ends.
func Install(ctx context.Context, to Server, fsys fs.FS, patterns ...string) error {
	documents, err := readDefinitions(fsys, patterns)
	if err != nil {
		return fmt.Errorf("crd: %w", err)
	}
	return install(ctx, to.Engine(), documents)
}

// source is a definition in a file.
type source struct {
	from string
	tree map[string]any
}

// readDefinitions reads the definitions in files.
func readDefinitions(fsys fs.FS, patterns []string) (out []source, err error) {
	names, err := yaml.Files(fsys, patterns)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, err
		}
		for i, text := range yaml.Documents(data) {
			from := fmt.Sprintf("%s, document %d", name, i+1)
			data, err := yaml.ToJSON(text, len(text))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", from, err)
			}
			v, err := json.DecodeTree(data, json.TreeOptions{})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", from, err)
			}
			if tree, _ := v.(map[string]any); tree["kind"] == "CustomResourceDefinition" {
				out = append(out, source{from: from, tree: tree})
			}
		}
	}
	if len(out) == 0 {
		return nil, errors.New("the files have no CustomResourceDefinition")
	}
	return out, nil
}

// applied is a definition that was sent, and what was served for it before.
type applied struct {
	name    string
	changed bool
	before  map[meta.GroupVersionResource]*registry.Resource
}

// install applies definitions, and waits until each of them is served.
func install(ctx context.Context, o registry.Objects, documents []source) error {
	served, isEngine := o.(*engine.Engine)
	of := o.ResourcesOf(reflect.TypeFor[CustomResourceDefinition]())
	if len(of) != 1 || !isEngine {
		return errors.New("crd: the server does not serve CustomResourceDefinition; see crd.Kinds")
	}
	ctx = authn.WithUser(ctx, controllerUser)
	for _, d := range documents { // one after the other, so that the first has the names that two want
		a, err := apply(ctx, served, of[0], d.tree)
		if err == nil {
			err = a.await(ctx, served, of[0])
		}
		if err != nil {
			return fmt.Errorf("crd: %s: %w", d.from, err)
		}
	}
	return nil
}

func apply(ctx context.Context, e *engine.Engine, of meta.GroupVersionResource, tree map[string]any) (out applied, err error) {
	metadata, _ := tree["metadata"].(map[string]any)
	out.name, _ = metadata["name"].(string)
	target := registry.Target{Resource: of, Name: out.name}
	old, err := definitionOf(ctx, e, target)
	if err == nil {
		out.before = old.served(e)
	}
	body, err := json.AppendTree(nil, tree)
	if err != nil {
		return out, err
	}
	result, err := e.Patch(ctx, target, registry.PatchRequest{Type: meta.ApplyPatch, Body: body}, registry.WriteOptions{
		FieldManager: "crd.Install", Force: true, FieldValidation: meta.FieldValidationStrict,
	})
	if err != nil {
		return out, err
	}
	now, err := read(result.Entry)
	out.changed = err == nil && old != nil && old.UID == now.UID && old.Generation != now.Generation
	return out, err
}

// await waits until a definition is established, and what is served is not what was served before.
func (a *applied) await(ctx context.Context, e *engine.Engine, of meta.GroupVersionResource) error {
	var d *definition
	named, err := meta.NewFieldSelector(meta.FieldRequirement{Field: "metadata.name", Op: meta.Equals, Value: a.name})
	if err != nil {
		return err
	}
	for event, err := range e.Watch(ctx, registry.Target{Resource: of}, registry.WatchRequest{Fields: named}) {
		if err != nil {
			return a.unserved(d, err)
		}
		switch event.Type {
		case meta.Added, meta.Modified:
		case meta.Deleted:
			return status.NotFound(of.GroupResource(), a.name)
		default:
			continue
		}
		if d, err = read(event.Entry); err != nil {
			return err
		}
		e.AwaitForce(ctx, of, event.Entry.Revision()) // another schema takes effect without an event
		if d.is(Established) && (!a.changed || a.replaced(d, e)) {
			return nil
		}
		for _, c := range d.Status.Conditions {
			if c.Type == NamesAccepted && c.Status == "False" {
				return fmt.Errorf("the names are not accepted: %s", c.Message)
			}
		}
	}
	return a.unserved(d, cmp.Or(ctx.Err(), errors.New("the server has ended")))
}

// unserved says why a definition is not served. It may be nil.
func (a *applied) unserved(d *definition, err error) error {
	reasons := ""
	if d != nil {
		reasons = d.reasons()
	}
	return fmt.Errorf("the definition is not served%s: %w", reasons, err)
}

// replaced reports whether each version is another than before.
func (a *applied) replaced(d *definition, e *engine.Engine) bool {
	now := d.served(e)
	for _, v := range d.Spec.Versions {
		of := meta.GroupVersionResource{Group: d.Spec.Group, Version: v.Name, Resource: d.Status.AcceptedNames.Plural}
		if v.Served && (now[of] == nil || now[of] == a.before[of]) {
			return false
		}
	}
	return true
}

// served returns what the engine serves for a definition.
func (d *definition) served(e *engine.Engine) map[meta.GroupVersionResource]*registry.Resource {
	out := map[meta.GroupVersionResource]*registry.Resource{}
	for _, v := range d.Spec.Versions {
		of := meta.GroupVersionResource{Group: d.Spec.Group, Version: v.Name, Resource: d.Status.AcceptedNames.Plural}
		if served, ok := e.Set().Lookup(of); ok {
			out[of] = served.Resource
		}
	}
	return out
}

// reasons returns the conditions that are not True, for an error.
func (d *definition) reasons() (out string) {
	for _, c := range d.Status.Conditions {
		if c.Status == "False" {
			out += fmt.Sprintf(", %s: %s", c.Type, c.Message)
		}
	}
	return out
}

func definitionOf(ctx context.Context, e *engine.Engine, t registry.Target) (*definition, error) {
	entry, err := e.Get(ctx, t, registry.ListRequest{})
	if err != nil {
		return nil, err
	}
	return read(entry)
}
