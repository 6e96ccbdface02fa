package engine_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/threeway/threewaytest"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage/memory"
)

var versionCases = flag.Int("version-cases", 600, "random writes through another version")

// plant is a kind whose objects threewaytest draws.
type plant struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Spec            branch `json:"spec,omitzero"`
}

// flatPlant is a plant whose fields are not below spec.
type flatPlant struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	branch          `json:",inline"`
}

type branch struct {
	A    string  `json:"a,omitempty"`
	B    string  `json:"b,omitempty"`
	U    string  `json:"u,omitempty"`
	Gone string  `json:"gone,omitempty"`
	O    *branch `json:"o,omitempty"`
	P    *branch `json:"p,omitempty"`
	V    *branch `json:"v,omitempty"`
	L    []twig  `json:"l,omitempty"`
	K    []twig  `json:"k,omitempty" list:"map,key=id"`
}

type twig struct {
	ID     string `json:"id"`
	branch `json:",inline"`
}

const plantGroup = "plants.example.dev"

func plantAt(version, name string) registry.Target {
	return registry.Target{Resource: meta.GroupVersionResource{Group: plantGroup, Version: version, Resource: "plants"}, Namespace: "a", Name: name}
}

// plantForms returns a stored kind and two versions of it. Each version hides some members, and one
// has no spec.
func plantForms(t *testing.T, hides map[string]func(string) bool) []*registry.Resource {
	t.Helper()
	stored := must(registry.Kind[plant]{Group: plantGroup, Version: "v1", Plural: "plants", Names: registry.Names{Kind: "Plant"}}.Resource())
	nested := must(registry.Kind[plant]{Group: plantGroup, Version: "v1beta1", Plural: "plants", Names: registry.Names{Kind: "Plant"}}.Resource())
	flat := must(registry.Kind[flatPlant]{Group: plantGroup, Version: "v1beta2", Plural: "plants", Names: registry.Names{Kind: "Plant"}}.Resource())
	each := func(convert func(registry.Tree) registry.Tree) func(context.Context, []registry.Tree) ([]registry.Tree, error) {
		return func(_ context.Context, objects []registry.Tree) ([]registry.Tree, error) {
			out := make([]registry.Tree, len(objects))
			for i, o := range objects {
				out[i] = convert(o)
			}
			return out, nil
		}
	}
	nested.Stored = &registry.Conversion{Resource: stored, To: each(maps.Clone), From: each(func(o registry.Tree) registry.Tree {
		return shownPlant("v1beta1", o, hides["v1beta1"])
	})}
	flat.Stored = &registry.Conversion{Resource: stored, To: each(func(o registry.Tree) registry.Tree {
		spec := maps.Clone(o)
		for _, name := range []string{"apiVersion", "kind", "metadata"} {
			delete(spec, name)
		}
		return registry.Tree{"spec": spec}
	}), From: each(func(o registry.Tree) registry.Tree { return shownPlant("v1beta2", o, hides["v1beta2"]) })}
	return []*registry.Resource{stored, nested, flat}
}

// shownPlant is a plant as a version shows it.
func shownPlant(version string, stored registry.Tree, hides func(string) bool) registry.Tree {
	spec, _ := stored["spec"].(map[string]any)
	return plantBody(version, threewaytest.New(0, hides).Part(spec))
}

// plantBody makes an object of what it has below spec, where the version has one.
func plantBody(version string, fields map[string]any) registry.Tree {
	switch {
	case version != "v1beta2" && len(fields) > 0:
		return registry.Tree{"spec": fields}
	case version != "v1beta2":
		return registry.Tree{}
	}
	out := maps.Clone(fields)
	if out == nil {
		out = registry.Tree{}
	}
	return out
}

// difference returns the merge patch that leads from before to after.
func difference(before, after map[string]any) map[string]any {
	out := map[string]any{}
	for name := range before {
		if _, still := after[name]; !still {
			out[name] = nil
		}
	}
	for name, a := range after {
		b, had := before[name]
		bm, wasMap := b.(map[string]any)
		am, isMap := a.(map[string]any)
		switch {
		case had && json.Equal(a, b):
		case wasMap && isMap:
			out[name] = difference(bm, am)
		default:
			out[name] = a
		}
	}
	return out
}

// operations returns the JSON patch that leads from before to after.
func operations(before, after map[string]any) []any {
	var out []any
	for name := range before {
		if _, still := after[name]; !still {
			out = append(out, map[string]any{"op": "remove", "path": "/" + name})
		}
	}
	for name, a := range after {
		out = append(out, map[string]any{"op": "add", "path": "/" + name, "value": a})
	}
	return out
}

// edited writes after through a version by some verb.
func edited(ctx context.Context, e *engine.Engine, verb, version string, before, after registry.Tree) error {
	target := plantAt(version, "x")
	whole := maps.Clone(after)
	whole["apiVersion"], whole["kind"], whole["metadata"] = plantGroup+"/"+version, "Plant", map[string]any{"name": "x"}
	send := func(kind meta.PatchType, body any, o registry.WriteOptions) error {
		data, err := json.AppendTree(nil, body)
		if err == nil {
			_, err = e.Patch(ctx, target, registry.PatchRequest{Type: kind, Body: data}, o)
		}
		return err
	}
	switch verb {
	case "merge patch":
		return send(meta.MergePatch, difference(before, after), registry.WriteOptions{})
	case "JSON patch":
		return send(meta.JSONPatch, operations(before, after), registry.WriteOptions{})
	case "apply":
		return send(meta.ApplyPatch, whole, registry.WriteOptions{FieldManager: "applier", Force: true})
	}
	data, err := json.AppendTree(nil, whole)
	if err == nil {
		_, err = e.Update(ctx, target, data, registry.WriteOptions{})
	}
	return err
}

// Random objects, random pairs of versions, random edits by every verb: what the version does not show
// survives, unless the item that it is in was removed.
func TestVER_15_NothingIsLostThroughAVersion(t *testing.T) {
	const perEngine = 200
	cases := effort.Of(*versionCases)
	for first := 0; first < cases; first += perEngine {
		// A subtest, so that its engine goes before the next one comes.
		t.Run(fmt.Sprintf("from %d", first), func(t *testing.T) {
			editsLoseNothing(t, first, min(first+perEngine, cases))
		})
	}
}

// editsLoseNothing makes the edits of seeds from first to last in one engine.
func editsLoseNothing(t *testing.T, first, last int) {
	t.Helper()
	draw := threewaytest.New(uint64(first), nil)
	hides := map[string]func(string) bool{}
	for _, version := range []string{"v1beta1", "v1beta2"} {
		var hidden []string
		for _, name := range []string{"a", "b", "u", "o", "p", "v", "l", "k"} {
			if draw.IntN(3) == 0 {
				hidden = append(hidden, name)
			}
		}
		hides[version] = func(name string) bool { return slices.Contains(hidden, name) }
	}
	e := start(t, memory.New(), nil)
	require.NoError(t, e.Install(t.Context(), plantForms(t, hides)...))
	for seed := first; seed < last; seed++ {
		version := []string{"v1beta1", "v1beta2"}[seed%2]
		verb := []string{"update", "merge patch", "JSON patch", "apply"}[draw.IntN(4)]
		checkEdit(t, e, uint64(seed), verb, version, hides[version])
	}
}

func checkEdit(t *testing.T, e *engine.Engine, seed uint64, verb, version string, hides func(string) bool) {
	t.Helper()
	w := threewaytest.New(seed, hides)
	object := w.Object(3)
	data, err := json.AppendTree(nil, map[string]any{"metadata": map[string]any{"name": "x"}, "spec": object})
	require.NoError(t, err)
	if _, err = e.Create(t.Context(), plantAt("v1", ""), data, registry.WriteOptions{}); err != nil {
		_, err = e.Update(t.Context(), plantAt("v1", "x"), data, registry.WriteOptions{})
	}
	require.NoError(t, err)
	before := w.Part(object)
	after, removed := w.Edit(before)
	say := fmt.Sprintf("seed %d: %s through %s\nobject %v\nafter  %v", seed, verb, version, object, after)
	require.NoError(t, edited(t.Context(), e, verb, version, plantBody(version, before), plantBody(version, after)), say)
	now, _ := at(get(t, e, plantAt("v1", "x")), "spec").(map[string]any)
	if verb == "apply" { // which removes nothing that others own
		removed = w.Missing(before, now)
	} else {
		require.True(t, json.Equal(after, w.Part(now)), "%s\nnow    %v", say, now)
	}
	require.Equal(t, w.Hidden(object, removed), w.Hidden(now, nil), "%s\nnow    %v", say, now)
}
