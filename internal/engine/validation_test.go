package engine_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// described is a kind known by a schema document alone.
func described(t *testing.T, spec string) *registry.Resource {
	t.Helper()
	v, err := json.DecodeTree([]byte(`{"type":"object","properties":{"spec":`+spec+`,"status":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}`), json.TreeOptions{})
	require.NoError(t, err)
	schema, problems := openapi.FromTree(v.(map[string]any))
	require.Empty(t, problems)
	r := &registry.Resource{Group: "example.dev", Version: "v1", Plural: "widgets", Names: registry.Names{Kind: "Widget"}, Schema: schema}
	require.NoError(t, registry.Status{}.AddTo(r))
	return r
}

// fill stores one object under one schema and returns an engine that serves it under another.
func fill(t *testing.T, b storage.Backend, before, after *registry.Resource, spec string) *engine.Engine {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	old, err := engine.New(engine.Config{Store: storage.New(b)})
	require.NoError(t, err)
	require.NoError(t, old.Start(ctx))
	require.NoError(t, old.Install(ctx, before))
	_, err = old.Create(ctx, inA, []byte(`{"metadata":{"name":"x"},"spec":`+spec+`}`), registry.WriteOptions{})
	require.NoError(t, err)
	cancel()
	old.Wait()
	e := start(t, b, nil)
	require.NoError(t, e.Install(t.Context(), after))
	return e
}

const (
	loose = `{"type":"object","properties":{"color":{"type":"string"},"size":{"type":"string"},"free":{"type":"string"},
		"parts":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object","required":["name"],
			"properties":{"name":{"type":"string"},"image":{"type":"string"}}}}}}`
	tight = `{"type":"object","required":["color"],"properties":{"color":{"type":"string","enum":["red"]},"size":{"type":"integer"},"free":{"type":"string"},
		"parts":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object","required":["name"],
			"properties":{"name":{"type":"string"},"image":{"type":"string","pattern":"^[a-z]+$"}}}}}}`
)

// KEP-4008: an object that a rule of today would refuse can still be changed elsewhere, on every path; and no further rule
// can be broken, nor the same one again.
func TestUPDATE_UnchangedProblemsDoNotBlock(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		e := fill(t, b, described(t, loose), described(t, tight), `{"color":"blue","size":"large","parts":[{"name":"a","image":"A"}]}`)
		status := named("x")
		status.Subresource = "status"
		for _, c := range []struct {
			target registry.Target
			patch  string
		}{
			{named("x"), `{"spec":{"free":"1"}}`},
			{named("x"), `{"spec":{"parts":[{"name":"b"},{"name":"a","image":"A"}]}}`},
			{named("x"), `{"metadata":{"labels":{"a":"b"}}}`},
			{status, `{"status":{"phase":"Ready"}}`},
		} {
			_, err := merge(t.Context(), e, c.target, c.patch)
			require.NoError(t, err, c.patch)
		}
		entry, err := e.Get(t.Context(), named("x"), registry.ListRequest{})
		require.NoError(t, err)
		_, err = e.Update(t.Context(), named("x"), []byte(strings.Replace(string(entry.AppendJSON(nil)), `"free":"1"`, `"free":"2"`, 1)), registry.WriteOptions{})
		require.NoError(t, err)
		entry, err = e.Get(t.Context(), named("x"), registry.ListRequest{})
		require.NoError(t, err)
		before := string(entry.AppendJSON(nil))
		require.Contains(t, before, `"free":"2"`)
		require.Contains(t, before, `"size":"large"`)

		for p, want := range map[string][]string{
			`{"spec":{"color":"green"}}`:                              {"spec.color"},
			`{"spec":{"size":"huge","color":"green"}}`:                {"spec.size", "spec.color"},
			`{"spec":{"parts":[{"name":"a","image":"B"}]}}`:           {"spec.parts[0].image"},
			`{"spec":{"parts":[{"name":"c","image":"A"}]}}`:           {"spec.parts[0].image"},
			`{"spec":{"color":null}}`:                                 {"spec.color"},
			`{"spec":{"free":7,"parts":[{"image":"A"}]}}`:             {"spec.free", "spec.parts[0].name", "spec.parts[0].image"},
			`{"metadata":{"labels":{"a":"b c"}},"spec":{"free":"3"}}`: {"metadata.labels"},
		} {
			_, err := merge(t.Context(), e, named("x"), p)
			require.ElementsMatch(t, want, causes(t, err), "%s: %v", p, err)
		}
		_, err = e.Create(t.Context(), inA, []byte(`{"metadata":{"name":"y"},"spec":{"color":"blue","size":"large"}}`), registry.WriteOptions{})
		require.ElementsMatch(t, []string{"spec.size", "spec.color"}, causes(t, err))
		entry, err = e.Get(t.Context(), named("x"), registry.ListRequest{})
		require.NoError(t, err)
		require.Equal(t, before, string(entry.AppendJSON(nil)), "what is refused changes nothing")
	})
}

// Hooks are promised objects of the right shape: a wrong type is refused however old, in words rather than by a panic.
func TestUPDATE_WrongTypesBlockWhereHooksAre(t *testing.T) {
	after := described(t, tight)
	after.Hooks.Validate = func(_ context.Context, o registry.Tree, _ *status.Fields) {
		if n, given := at(o, "spec", "size").(int64); !given && at(o, "spec", "size") != nil {
			panic(n)
		}
	}
	e := fill(t, memory.New(), described(t, loose), after, `{"color":"blue","size":"large"}`)
	_, err := merge(t.Context(), e, named("x"), `{"spec":{"free":"1"}}`)
	require.Contains(t, causes(t, err), "spec.size")
	_, err = merge(t.Context(), e, named("x"), `{"spec":{"free":"1","size":1}}`)
	require.NoError(t, err)
}

// What the schema has reported is not reported again by a hook that knows the same values.
//
// Source: ERR-23.
func TestCREATE_HooksDoNotRepeatTheSchema(t *testing.T) {
	kind := described(t, tight)
	kind.Hooks.Validate = func(_ context.Context, _ registry.Tree, f *status.Fields) {
		f.At("spec", "color").NotSupported("blue", "red")
		f.At("spec", "color").Invalid("blue", "is no colour of ours")
	}
	e := fill(t, memory.New(), described(t, loose), kind, `{"color":"red"}`)
	_, err := e.Create(t.Context(), inA, []byte(`{"metadata":{"name":"y"},"spec":{"color":"blue"}}`), registry.WriteOptions{})
	require.Equal(t, []string{"spec.color", "spec.color"}, causes(t, err))
}

func causes(t *testing.T, err error) []string {
	t.Helper()
	require.Equal(t, meta.ReasonInvalid, reason(t, err))
	var fields []string
	for _, c := range status.From(err).Status().Details.Causes {
		fields = append(fields, c.Field)
	}
	return fields
}

// Every way of writing reports every unknown and every repeated field, by the mode that the request names.
func TestQUERY_23_EveryWayOfWriting(t *testing.T) {
	const body = `{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":"x","nam":1},"spec":{"size":1,"size":2,"colour":"red","note":"a","note":"b","also":{}}}`
	all := []string{`unknown field "metadata.nam"`, `duplicate field "spec.size"`, `unknown field "spec.colour"`, `duplicate field "spec.note"`, `unknown field "spec.also"`}
	unknown := []string{`unknown field "spec.also"`, `unknown field "spec.colour"`}
	patching := func(kind meta.PatchType, text string) func(context.Context, *engine.Engine, registry.WriteOptions) (*registry.Result, error) {
		return func(ctx context.Context, e *engine.Engine, o registry.WriteOptions) (*registry.Result, error) {
			return e.Patch(ctx, named("x"), registry.PatchRequest{Type: kind, Body: []byte(text)}, o)
		}
	}
	for name, c := range map[string]struct {
		write    func(context.Context, *engine.Engine, registry.WriteOptions) (*registry.Result, error)
		creates  bool
		want     []string
		strictly meta.Reason
	}{
		"create": {func(ctx context.Context, e *engine.Engine, o registry.WriteOptions) (*registry.Result, error) {
			return e.Create(ctx, inA, []byte(body), o)
		}, true, all, meta.ReasonBadRequest},
		"update": {func(ctx context.Context, e *engine.Engine, o registry.WriteOptions) (*registry.Result, error) {
			return e.Update(ctx, named("x"), []byte(body), o)
		}, false, all, meta.ReasonBadRequest},
		"status": {func(ctx context.Context, e *engine.Engine, o registry.WriteOptions) (*registry.Result, error) {
			target := named("x")
			target.Subresource = "status"
			return e.Update(ctx, target, []byte(body), o)
		}, false, all, meta.ReasonBadRequest},
		"merge patch": {
			patching(meta.MergePatch, `{"spec":{"size":1,"size":2,"colour":"red","also":{"x":1}}}`), false,
			append([]string{`duplicate field "spec.size"`}, unknown...), meta.ReasonInvalid,
		},
		"JSON patch": {patching(meta.JSONPatch, `[{"op":"add","path":"/spec/colour","value":"red"},{"op":"add","path":"/spec/also","value":{"a":1}}]`), false, unknown, meta.ReasonInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			e := start(t, memory.New(), nil, widgets())
			if !c.creates {
				create(t, e, "x")
			}
			_, err := c.write(t.Context(), e, registry.WriteOptions{FieldValidation: meta.FieldValidationStrict})
			require.Equal(t, c.strictly, reason(t, err), err)
			require.ErrorContains(t, err, "strict decoding error: "+strings.Join(c.want, ", "))

			ctx, warnings := collected(t.Context())
			_, err = c.write(ctx, e, registry.WriteOptions{FieldValidation: meta.FieldValidationIgnore, DryRun: true})
			require.NoError(t, err)
			require.Empty(t, warnings())

			ctx, warnings = collected(t.Context())
			r, err := c.write(ctx, e, registry.WriteOptions{})
			require.NoError(t, err)
			require.Equal(t, c.want, warnings())
			require.Nil(t, at(tree(t, r), "spec", "colour"))
		})
	}
}

func TestEveryBadWordOfAKindIsNamed(t *testing.T) {
	_, err := registry.Kind[widget]{Group: "A_b", Version: "One", Plural: "Wid gets", Names: registry.Names{Kind: "widget", ShortNames: []string{"w d"}, Categories: []string{""}}}.Resource()
	for _, want := range []string{`group "A_b"`, `version "One"`, `plural "Wid gets"`, `short name "w d"`, `category ""`, `kind name "widget"`} {
		require.ErrorContains(t, err, want)
	}
	require.NotContains(t, err.Error(), "storage name", "it follows from the others")
}
