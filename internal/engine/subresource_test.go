package engine_test

import (
	"context"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

type vase struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Spec   vaseSpec   `json:"spec,omitzero"`
	Status vaseStatus `json:"status,omitzero"`
}

type vaseSpec struct {
	Size  int32  `json:"size,omitempty"`
	Color string `json:"color,omitempty"`
}

type vaseStatus struct {
	Size  int32  `json:"size,omitempty"`
	Shape string `json:"shape,omitempty"`
}

type card struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Color string `json:"color,omitempty"`
}

type note struct {
	meta.TypeMeta `json:",inline"`

	Text string `json:"text,omitempty"`
}

type badOptions struct {
	Deep map[string]string `json:"deep"`
}

func vaseKind(endpoints ...registry.Endpoint) registry.Kind[vase] {
	return registry.Kind[vase]{Group: "example.dev", Version: "v1", Plural: "vases", Names: registry.Names{Kind: "Vase"}, Subresources: endpoints}
}

func TestPATH_15_SubresourcesThatCannotBeServed(t *testing.T) {
	merge := func(_, sent registry.Tree) registry.Tree { return sent }
	scale := func(spec, state, selector string) registry.Endpoint {
		return registry.ScaleSubresource{SpecReplicasPath: spec, StatusReplicasPath: state, LabelSelectorPath: selector}
	}
	get := func(context.Context, *vase) (*card, error) { return nil, nil }
	run := func(context.Context, *registry.Call[vase], *note) (*note, error) { return nil, nil }
	ask := func(context.Context, *registry.Call[vase], *registry.NoOptions) (*note, error) { return nil, nil }
	open := func(context.Context, *registry.Call[vase], *registry.NoOptions) (io.ReadCloser, error) {
		return nil, nil
	}
	for text, endpoints := range map[string][]registry.Endpoint{
		"has no Merge":                                {registry.Subresource{Name: "x", Verbs: []string{"get", "patch"}}},
		`cannot serve the verb "delete"`:              {registry.Subresource{Name: "x", Verbs: []string{"delete"}, Merge: merge}},
		`cannot serve the verb "create"`:              {registry.Subresource{Name: "x", Verbs: []string{"create"}, Merge: merge}},
		"has no verbs":                                {registry.Subresource{Name: "x", Merge: merge}},
		`subresource "a b"`:                           {registry.Subresource{Name: "a b", Verbs: []string{"get"}}},
		`"status" is given twice`:                     {registry.Subresource{Name: "status", Verbs: []string{"get"}}},
		"subresource 0 is nil":                        {nil},
		"two endpoints want the verb get":             {registry.Query[vase, registry.NoOptions, note]{Name: "x", Kind: meta.GroupVersionKind{Kind: "Note"}, Run: ask}, registry.Stream[vase, registry.NoOptions]{Name: "x", Open: open}},
		`SpecReplicasPath "" must be a path`:          {scale("", ".status.size", "")},
		`SpecReplicasPath "spec.size" must be a path`: {scale("spec.size", ".status.size", "")},
		`does not begin with .spec`:                   {scale(".status.size", ".status.size", "")},
		`does not begin with .status`:                 {scale(".spec.size", ".spec.size", "")},
		"the kind has no such field":                  {scale(".spec.length", ".status.size", "")},
		`the field is "string"`:                       {scale(".spec.color", ".status.size", "")},
		`must be "string"`:                            {scale(".spec.size", ".status.size", ".status.size")},
		"begin with .spec or .status":                 {scale(".spec.size", ".status.size", ".metadata.name")},
		"no function Get":                             {registry.View[vase, card]{Name: "x"}},
		"need metadata":                               {registry.View[vase, note]{Name: "x", Kind: meta.GroupVersionKind{Kind: "Note"}, Get: func(context.Context, *vase) (*note, error) { return nil, nil }}},
		"no function Run":                             {registry.Action[vase, note, note]{Name: "x"}},
		`not "delete"`:                                {registry.Action[vase, note, note]{Name: "x", Verb: "delete", Run: run}},
		"has no function Run":                         {registry.Query[vase, registry.NoOptions, note]{Name: "x"}},
		"no function Open":                            {registry.Stream[vase, registry.NoOptions]{Name: "x"}},
		"no function Handler":                         {registry.Connection[vase, registry.NoOptions]{Name: "x"}},
		`field "deep"`:                                {registry.Stream[vase, badOptions]{Name: "x", Open: func(context.Context, *registry.Call[vase], *badOptions) (io.ReadCloser, error) { return nil, nil }}},
		"and the kind has engine_test.vase":           {registry.View[card, card]{Name: "x", Get: func(context.Context, *card) (*card, error) { return nil, nil }}},
		`kind "lower"`:                                {registry.View[vase, card]{Name: "x", Get: get, Kind: meta.GroupVersionKind{Kind: "lower"}}},
		`kind "card" of Go type`:                      {registry.View[vase, card]{Name: "x", Get: get}},
		"document has Go type int, which":             {registry.Query[vase, registry.NoOptions, int]{Name: "x", Kind: meta.GroupVersionKind{Kind: "Note"}, Run: func(context.Context, *registry.Call[vase], *registry.NoOptions) (*int, error) { return nil, nil }}},
		"options have Go type int, which":             {registry.Query[vase, int, note]{Name: "x", Kind: meta.GroupVersionKind{Kind: "Note"}, Run: func(context.Context, *registry.Call[vase], *int) (*note, error) { return nil, nil }}},
	} {
		_, err := vaseKind(endpoints...).Resource()
		require.ErrorContains(t, err, text)
	}
	odd := vaseKind()
	odd.Status.Metadata = []string{"labels", "generation"}
	_, err := odd.Resource()
	require.ErrorContains(t, err, `Status.Metadata: "generation" is none of annotations`)
	_, err = vaseKind(scale(".spec.size", ".status.size", ".status.shape"), registry.View[vase, card]{Name: "x", Get: get, Kind: meta.GroupVersionKind{Kind: "Card"}}).Resource()
	require.NoError(t, err)
}

// vases is an engine with one vase, and a subresource of each sort.
func vases(t testing.TB, plugins ...admission.Plugin) (*engine.Engine, func(sub string) registry.Target) {
	t.Helper()
	named := meta.GroupVersionKind{Kind: "Note"}
	kind := vaseKind(
		registry.ScaleSubresource{SpecReplicasPath: ".spec.size", StatusReplicasPath: ".status.size"},
		registry.View[vase, card]{
			Name: "card", Kind: meta.GroupVersionKind{Kind: "Card"},
			Get:   func(_ context.Context, v *vase) (*card, error) { return &card{Color: v.Spec.Color}, nil },
			Merge: func(_ context.Context, v *vase, c *card) error { v.Spec.Color = c.Color; return nil },
		},
		registry.Action[vase, note, note]{Name: "note", Kind: named, Run: func(_ context.Context, _ *registry.Call[vase], n *note) (*note, error) { return n, nil }},
		registry.Query[vase, searchOptions, note]{Name: "search", Kind: named, Run: func(_ context.Context, _ *registry.Call[vase], o *searchOptions) (*note, error) {
			return &note{Text: strings.Join(o.Words, " ")}, nil
		}},
	)
	chain, err := admission.NewChain(plugins...)
	require.NoError(t, err)
	e, err := engine.New(engine.Config{Store: storage.New(memory.New()), Admission: chain})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); e.Wait() })
	require.NoError(t, e.Start(ctx))
	r, err := kind.Resource()
	require.NoError(t, err)
	require.NoError(t, e.Install(ctx, r))
	at := registry.Target{Resource: r.GroupVersionResource(), Namespace: "default"}
	_, err = e.Create(ctx, at, []byte(`{"metadata":{"name":"a"},"spec":{"size":1,"color":"red"}}`), registry.WriteOptions{})
	require.NoError(t, err)
	return e, func(sub string) registry.Target {
		out := at
		out.Name, out.Subresource = "a", sub
		return out
	}
}

type searchOptions struct {
	Words []string `json:"word,omitempty" maxItems:"4"`
	Limit *int32   `json:"limit,omitempty" minimum:"0"`
	Deep  bool     `json:"deep,omitempty"`
	Sort  string   `json:"sort,omitempty" enum:"up,down" default:"up"`
}

// A client whom a plugin refuses an action does not learn whether the object is there (ADM-06).
func TestADM_06_RefusedActionsTellNothingOfTheObject(t *testing.T) {
	e, target := vases(t, admission.Plugin{Name: "strict", Mutator: admission.MutatorFunc(func(_ context.Context, r *admission.Request) (map[string]any, error) {
		if text, _ := r.Object["text"].(string); text == "bad" {
			return nil, admission.Denied(r, "not this one")
		}
		return admission.Allowed(r)
	})})
	for name, fine := range map[string]bool{"a": true, "none": false} {
		at := target("note")
		at.Name = name
		_, err := e.Create(t.Context(), at, []byte(`{"text":"bad"}`), registry.WriteOptions{})
		require.Equal(t, meta.ReasonForbidden, reason(t, err), name)
		_, err = e.Create(t.Context(), at, []byte(`{"text":"good"}`), registry.WriteOptions{})
		if fine {
			require.NoError(t, err)
		} else {
			require.Equal(t, meta.ReasonNotFound, reason(t, err))
		}
	}
}

// Whatever is sent to a subresource, the object stays one of its kind, and no error of the server comes of it.
func FuzzSubresources(f *testing.F) {
	e, target := vases(f)
	for _, body := range []string{
		`{"metadata":{"name":"a"},"spec":{"replicas":3}}`, `{"spec":{"replicas":-1}}`, `[{"op":"add","path":"/spec/replicas","value":2}]`, `{"color":"x"}`,
		`{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a"},"spec":{"replicas":7}}`, `[]`, `null`, `{"metadata":null}`, `{"kind":7}`, ``,
		`word=a&word=b&limit=3&deep&sort=down`, `limit=x`, `sort=&sort=up`, `word=%ff`, `{"text":"t","text":1}`, `{"metadata":{"managedFields":[{"manager":"x"}]}}`,
	} {
		f.Add(uint8(0), body)
		f.Add(uint8(6), body)
	}
	f.Fuzz(func(t *testing.T, door uint8, body string) {
		ctx, o := context.Background(), registry.WriteOptions{FieldManager: "fuzz", Force: true}
		var err error
		sub := []string{"scale", "card"}[door/8%2]
		switch door % 8 {
		case 0:
			_, err = e.Update(ctx, target(sub), []byte(body), o)
		case 1:
			_, err = e.Patch(ctx, target(sub), registry.PatchRequest{Type: meta.MergePatch, Body: []byte(body)}, o)
		case 2:
			_, err = e.Patch(ctx, target(sub), registry.PatchRequest{Type: meta.JSONPatch, Body: []byte(body)}, o)
		case 3:
			_, err = e.Patch(ctx, target(sub), registry.PatchRequest{Type: meta.StrategicMergePatch, Body: []byte(body)}, o)
		case 4:
			_, err = e.Patch(ctx, target(sub), registry.PatchRequest{Type: meta.ApplyPatch, Body: []byte(body)}, o)
		case 5:
			_, err = e.Create(ctx, target("note"), []byte(body), o)
		default:
			values, bad := url.ParseQuery(body)
			if bad != nil {
				return
			}
			_, err = e.Ask(ctx, target("search"), values)
		}
		if err != nil {
			require.Less(t, status.CodeOf(err), 500, "%v", err)
		}
		entry, err := e.Get(ctx, target(""), registry.ListRequest{})
		require.NoError(t, err)
		require.Contains(t, string(entry.AppendJSON(nil)), `"kind":"Vase"`)
		scale, err := e.Get(ctx, target("scale"), registry.ListRequest{})
		require.NoError(t, err)
		require.NotContains(t, string(scale.AppendJSON(nil)), `"replicas":-`)
	})
}
