package policy_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/admission/policy"
	"github.com/kindwright/kindwright/apply"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
)

// merger is a server that merges by one schema.
type merger struct {
	admission.Server

	fields *apply.Fields
}

func (s merger) Merge(_ context.Context, object, part map[string]any) (map[string]any, error) {
	return s.fields.Merge(object, part)
}

func (s merger) Default(_ context.Context, object map[string]any) (map[string]any, error) {
	return object, nil
}

func (s merger) CheckFields(map[string]any) error { return nil }

func (s merger) Forms(meta.GroupVersionResource) []admission.Form { return nil }

// mutationBytes is how much a mutation may allocate, with the compilation of its expressions. What it makes may have
// the length of a request.
const mutationBytes = 256 << 20

// FuzzMutations looks for mutations of both forms that break, that modify the object which they were given, or that
// make another object of it.
func FuzzMutations(f *testing.F) {
	for _, expression := range []string{
		`Object{spec: Object.spec{replicas: object.spec.replicas + 1}}`, `Object{metadata: Object.metadata{labels: {"a": "b"}}}`,
		`[JSONPatch{op: "add", path: "/spec/replicas", value: 5}]`, `[JSONPatch{op: "remove", path: ""}]`,
		`[JSONPatch{op: "copy", from: "/spec", path: "/spec/a"}, JSONPatch{op: "test", path: "/kind", value: "Deployment"}]`,
		`lists.range(500).map(i, JSONPatch{op: "copy", from: "/spec", path: "/spec/a" + string(i)})`,
		`Object{spec: Object.spec{a: lists.range(5000).map(i, object)}}`, `[JSONPatch{op: "add", path: "/spec/l", value: lists.range(9000).map(i, [i])}]`,
		`[JSONPatch{op: "move", from: "/spec/template", path: "/" + jsonpatch.escapeKey("a/b")}]`, `Object{?a: optional.none()}`,
	} {
		f.Add(expression)
	}
	s, problems := openapi.FromTree(map[string]any{"type": "object", "properties": map[string]any{
		"apiVersion": map[string]any{"type": "string"}, "kind": map[string]any{"type": "string"}, "metadata": map[string]any{"type": "object"},
		"spec": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": map[string]any{"replicas": map[string]any{"type": "integer"}}},
	}})
	require.Empty(f, problems)
	fields, err := apply.New([]apply.Version{{APIVersion: "apps/v1", Schema: s}}, nil)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, expression string) {
		if len(expression) > 1000 {
			return
		}
		_, bound := policies(1, "deployments")
		template, _ := policies(1, "deployments")
		p := &policy.MutatingAdmissionPolicy{}
		p.Name = bound[0].Name
		p.Spec.MatchConstraints = template[0].Spec.MatchConstraints
		p.Spec.Mutations = []policy.Mutation{
			{PatchType: policy.PatchApplyConfiguration, ApplyConfiguration: &policy.ApplyConfiguration{Expression: expression}},
			{PatchType: policy.PatchJSON, JSONPatch: &policy.JSONPatch{Expression: expression}},
		}
		ignore := policy.Ignore
		p.Spec.FailurePolicy = &ignore // the other form does not compile
		p.Default()
		r := deployment()
		r.Object["apiVersion"], r.Object["kind"], r.Server = "apps/v1", "Deployment", merger{fields: fields}
		before, err := json.AppendTree(nil, r.Object)
		require.NoError(t, err)
		mutator := policy.NewMutator(p)
		var stats, later runtime.MemStats
		runtime.ReadMemStats(&stats)
		out, err := mutator.Mutate(t.Context(), r)
		runtime.ReadMemStats(&later)
		require.LessOrEqual(t, later.TotalAlloc-stats.TotalAlloc, uint64(mutationBytes), "%q", expression)
		after, bad := json.AppendTree(nil, r.Object)
		require.NoError(t, bad)
		require.Equal(t, string(before), string(after))
		if err == nil && out != nil {
			require.Equal(t, []string{"apps/v1", "Deployment", "web"}, []string{tree.Text(out, "apiVersion"), tree.Text(out, "kind"), tree.Text(out, "metadata", "name")})
		}
	})
}
