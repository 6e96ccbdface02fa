package openapi_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/protowire"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
)

func swagger(t testing.TB) openapi.Swagger {
	s, errs := openapi.FromTree(tree(t, structural))
	require.Empty(t, errs)
	one := document(widget(t))
	one.Kinds[0].Protobuf = true
	one.Kinds[0].Patches = []string{"application/strategic-merge-patch+json", "application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"}
	return openapi.Swagger{Version: "v1.2.3", Documents: []openapi.Document{
		one,
		{Group: "example.dev", Version: "v2", Kinds: []openapi.KindDoc{{Kind: "Widget", Plural: "widgets", Verbs: allVerbs, Schema: s}}},
		{Version: "v1", Kinds: []openapi.KindDoc{{Kind: "Question", Plural: "questions", Verbs: []string{"create"}, Schema: s}}},
	}}
}

// TestOAPI_01_Golden compares a whole document, so that a reviewer sees every change of it.
func TestOAPI_01_Golden(t *testing.T) {
	got, err := swagger(t).JSON()
	require.NoError(t, err)
	again, err := swagger(t).JSON()
	require.NoError(t, err)
	require.Equal(t, string(got), string(again), "the same bytes every time: they are hashed")
	const path = "testdata/swagger.json"
	pretty, err := json.Indent(nil, got)
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(path, append(pretty, '\n'), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(pretty)+"\n", "run with -update if this is meant")
}

// TestOAPI_DEL_OptionsOfDeletions compares the parameters of deletions with the fields of their options, each of
// which a client can send either way.
func TestOAPI_DEL_OptionsOfDeletions(t *testing.T) {
	data, err := swagger(t).JSON()
	require.NoError(t, err)
	all := tree(t, string(data))
	fields := at(all, "definitions", "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions", "properties").(map[string]any)
	want := slices.DeleteFunc(slices.Sorted(maps.Keys(fields)), func(name string) bool {
		return name == "apiVersion" || name == "kind" || name == "preconditions" // no parameter has these
	})
	parameters := func(path string) (got []string) {
		for _, p := range at(all, "paths", path, "delete", "parameters").([]any) {
			if at(p, "in") == "query" {
				got = append(got, at(p, "name").(string))
			}
		}
		return got
	}
	require.Equal(t, want, parameters("/apis/example.dev/v1/namespaces/{namespace}/widgets/{name}"))
	require.Subset(t, parameters("/apis/example.dev/v1/namespaces/{namespace}/widgets"), want)
}

// TestOAPI_01_PathsOfDiscovery reads the paths that belong to no version of a group. Generated clients have
// methods for them.
func TestOAPI_01_PathsOfDiscovery(t *testing.T) {
	data, err := swagger(t).JSON()
	require.NoError(t, err)
	all := tree(t, string(data))
	for path, want := range map[string][3]string{
		"/api/":              {"getCoreAPIVersions", "core", "io.k8s.apimachinery.pkg.apis.meta.v1.APIVersions"},
		"/apis/":             {"getAPIVersions", "apis", "io.k8s.apimachinery.pkg.apis.meta.v1.APIGroupList"},
		"/apis/example.dev/": {"getExampleDevAPIGroup", "example_dev", "io.k8s.apimachinery.pkg.apis.meta.v1.APIGroup"},
		"/version/":          {"getCodeVersion", "version", "io.k8s.apimachinery.pkg.version.Info"},
	} {
		item, _ := all["paths"].(map[string]any)[path].(map[string]any)
		get, _ := item["get"].(map[string]any)
		require.NotNil(t, get, path)
		require.Equal(t, want[0], get["operationId"])
		require.Equal(t, []any{want[1]}, get["tags"])
		require.Contains(t, all["definitions"], want[2])
		ok := get["responses"].(map[string]any)["200"].(map[string]any)
		require.Equal(t, map[string]any{"$ref": "#/definitions/" + want[2]}, ok["schema"])
	}

	s, errs := openapi.FromTree(tree(t, structural))
	require.Empty(t, errs)
	data, err = openapi.Swagger{Documents: []openapi.Document{
		{Group: "defined.dev", Version: "v1", Kinds: []openapi.KindDoc{{Kind: "Widget", Plural: "widgets", Verbs: allVerbs, Schema: s}}},
	}}.JSON()
	require.NoError(t, err)
	require.NotContains(t, tree(t, string(data))["paths"], "/apis/defined.dev/", "kube-apiserver names groups of custom resources nowhere")
}

func TestOAPI_01_SwaggerSaysWhatClientsRead(t *testing.T) {
	data, err := swagger(t).JSON()
	require.NoError(t, err)
	all := tree(t, string(data))
	definitions := all["definitions"].(map[string]any)
	require.Equal(t, map[string]any{"title": "kindwright", "version": "v1.2.3"}, all["info"])
	for _, part := range strings.Split(string(data), `"$ref":"`)[1:] {
		ref, _, _ := strings.Cut(part, `"`)
		name, ok := strings.CutPrefix(ref, "#/definitions/")
		require.True(t, ok, ref)
		require.Contains(t, definitions, name)
	}
	for _, word := range []string{`"anyOf"`, `"oneOf"`, `"allOf"`, `"not"`, `"nullable"`, `"deprecated"`, `"requestBody"`, `"content"`} {
		require.NotContains(t, string(data), word, "v2 has no such thing")
	}
	spec := at(definitions, "dev.example.v2.Widget", "properties", "spec", "properties")
	require.Equal(t, []any{"port", "protocol"}, at(spec, "ports", "x-kubernetes-list-map-keys"))
	require.Equal(t, "map", at(spec, "ports", "x-kubernetes-list-type"))
	require.Equal(t, "atomic", at(spec, "labels", "x-kubernetes-map-type"))
	require.Equal(t, true, at(spec, "free", "x-kubernetes-preserve-unknown-fields"))
	require.Equal(t, true, at(spec, "object", "x-kubernetes-embedded-resource"))
	require.Equal(t, map[string]any{"x-kubernetes-int-or-string": true}, at(spec, "target"), "as kube-apiserver says it of custom resources")
	require.Equal(t, true, at(spec, "size", "exclusiveMaximum"))
	metadata := at(definitions, "dev.example.v2.Widget", "properties", "metadata")
	require.Equal(t, "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", at(metadata, "$ref"))
	owners := at(definitions, "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "properties", "ownerReferences")
	require.Equal(t, "merge", at(owners, "x-kubernetes-patch-strategy"))
	require.Equal(t, "uid", at(owners, "x-kubernetes-patch-merge-key"))

	patch := at(all, "paths", "/apis/example.dev/v1/namespaces/{namespace}/widgets/{name}", "patch")
	require.Equal(t, map[string]any{"group": "example.dev", "version": "v1", "kind": "Widget"}, at(patch, "x-kubernetes-group-version-kind"))
	require.Equal(t, "patch", at(patch, "x-kubernetes-action"))
	require.Equal(t, []any{
		"application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json",
	}, at(patch, "consumes"))
	require.Equal(t, []any{"application/json", "application/vnd.kubernetes.protobuf", "application/yaml"}, at(patch, "produces"))
	names := map[any]any{}
	for _, p := range at(patch, "parameters").([]any) {
		names[at(p, "name")] = at(p, "in")
	}
	require.Equal(t, map[any]any{"dryRun": "query", "fieldManager": "query", "force": "query", "body": "body"}, names)

	// kubectl looks for the parameter here and would then list custom resource definitions.
	defining := swagger(t)
	defining.Documents[2].Kinds = append(defining.Documents[2].Kinds, openapi.KindDoc{Kind: "CustomResourceDefinition", Plural: "crds", Schema: widget(t)})
	data, err = defining.JSON()
	require.NoError(t, err)
	patch = at(tree(t, string(data)), "paths", "/apis/example.dev/v1/namespaces/{namespace}/widgets/{name}", "patch")
	require.True(t, slices.ContainsFunc(at(patch, "parameters").([]any), func(p any) bool { return at(p, "name") == "fieldValidation" }))

	// Two schemas must not claim the same kind, because clients reject that. DeleteOptions claims
	// every group version.
	seen := map[meta.GroupVersionKind]string{}
	for name, definition := range definitions {
		kinds, _ := at(definition, "x-kubernetes-group-version-kind").([]any)
		for _, k := range kinds {
			gvk := meta.GroupVersionKind{Group: at(k, "group").(string), Version: at(k, "version").(string), Kind: at(k, "kind").(string)}
			require.Empty(t, seen[gvk], "%v of %s", gvk, name)
			seen[gvk] = name
		}
	}
	for _, group := range []string{"", "example.dev"} {
		require.NotEmpty(t, seen[meta.GroupVersionKind{Group: group, Version: "v1", Kind: "DeleteOptions"}])
	}
}

// A value of several types is a union, under the keywords that the schema's own branches use too.
// A client chooses the group of a kind that it defines, and with that a name of its definition. That
// does not take the place of what the program publishes under this name, in any order of the documents.
func TestOAPI_01_DefinedKindsDoNotReplaceDefinitions(t *testing.T) {
	defined, errs := openapi.FromTree(tree(t, `{"type":"object","properties":{"probe":{"type":"boolean"}}}`))
	require.Empty(t, errs)
	own := *widget(t)
	own.Component = "io.example.pkg.parts.v1.Widget"
	part := func(group, kind, list string, s *openapi.Schema) openapi.Document {
		return openapi.Document{Group: group, Version: "v1", Kinds: []openapi.KindDoc{{Kind: kind, ListKind: list, Plural: "things", Verbs: []string{"get", "list"}, Schema: s}}}
	}
	documents := []openapi.Document{
		part("parts.pkg.example.io", "Widget", "WidgetList", defined),
		part("meta.apis.pkg.apimachinery.k8s.io", "ObjectMeta", "ListMeta", defined),
		part("parts.example.io", "Widget", "WidgetList", &own),
	}
	for range 2 {
		data, err := openapi.Swagger{Documents: documents}.JSON()
		require.NoError(t, err)
		all := tree(t, string(data))
		definitions := all["definitions"].(map[string]any)
		probed := func(name string) bool {
			require.Contains(t, definitions, name)
			_, has := definitions[name].(map[string]any)["properties"].(map[string]any)["probe"]
			return has
		}
		require.False(t, probed("io.example.pkg.parts.v1.Widget"))
		require.False(t, probed("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"))
		require.True(t, probed("io.example.pkg.parts.v1.Widget_v2"))
		require.True(t, probed("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta_v2"))
		for path, want := range map[string]string{
			"/apis/parts.pkg.example.io/v1/things/{name}":              "io.example.pkg.parts.v1.Widget_v2",
			"/apis/parts.pkg.example.io/v1/things":                     "io.example.pkg.parts.v1.WidgetList_v2",
			"/apis/parts.example.io/v1/things/{name}":                  "io.example.pkg.parts.v1.Widget",
			"/apis/parts.example.io/v1/things":                         "io.example.pkg.parts.v1.WidgetList",
			"/apis/meta.apis.pkg.apimachinery.k8s.io/v1/things/{name}": "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta_v2",
			"/apis/meta.apis.pkg.apimachinery.k8s.io/v1/things":        "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta_v2",
		} {
			item := all["paths"].(map[string]any)[path]
			require.NotNil(t, item, path)
			text, err := json.AppendTree(nil, item.(map[string]any)["get"].(map[string]any)["responses"])
			require.NoError(t, err)
			require.Contains(t, string(text), `"#/definitions/`+want+`"`, path)
		}
		slices.Reverse(documents)
	}
}

func TestPublishedUnions(t *testing.T) {
	name := openapi.Schema{Component: "dev.example.Name", Type: openapi.String}
	for _, c := range []struct {
		name   string
		schema openapi.Schema
		v3, v2 string
	}{
		{
			"integer or string",
			openapi.Schema{IntOrString: true},
			`{"anyOf":[{"type":"integer"},{"type":"string"}],"x-kubernetes-int-or-string":true}`,
			`{"format":"int-or-string","type":"string","x-kubernetes-int-or-string":true}`,
		},
		{
			"with branches",
			openapi.Schema{IntOrString: true, AnyOf: []*openapi.Schema{{Pattern: "a"}}, AllOf: []*openapi.Schema{{Pattern: "b"}}},
			`{"allOf":[{"anyOf":[{"type":"integer"},{"type":"string"}]},{"anyOf":[{"pattern":"a"}]},{"pattern":"b"}],"x-kubernetes-int-or-string":true}`,
			`{"format":"int-or-string","type":"string","x-kubernetes-int-or-string":true}`,
		},
		{"string or number", openapi.Schema{OrNumber: true}, `{"oneOf":[{"type":"string"},{"type":"number"}]}`, `{"type":"string"}`},
		{
			"with branches",
			openapi.Schema{OrNumber: true, OneOf: []*openapi.Schema{{Pattern: "a"}}},
			`{"allOf":[{"oneOf":[{"type":"string"},{"type":"number"}]},{"oneOf":[{"pattern":"a"}]}]}`, `{}`,
		},
		{
			"of branches",
			openapi.Schema{OneOf: []*openapi.Schema{{Type: openapi.String}, {Type: openapi.Number}}},
			`{"oneOf":[{"type":"string"},{"type":"number"}]}`, `{"type":"string"}`,
		},
		{
			"one reference",
			openapi.Schema{AllOf: []*openapi.Schema{&name}, Type: openapi.String},
			`{"allOf":[{"$ref":"#/components/schemas/dev.example.Name"}],"type":"string"}`,
			`{"$ref":"#/definitions/dev.example.Name","type":"string"}`,
		},
		{
			"one reference with a description",
			openapi.Schema{Component: "dev.example.Name", Type: openapi.String, Description: "It."},
			`{"allOf":[{"$ref":"#/components/schemas/dev.example.Name"}],"description":"It."}`,
			`{"$ref":"#/definitions/dev.example.Name","description":"It."}`,
		},
		{"not", openapi.Schema{Not: &openapi.Schema{AllOf: []*openapi.Schema{&name}}}, `{"not":{"allOf":[{"$ref":"#/components/schemas/dev.example.Name"}]}}`, `{}`},
	} {
		s := build(t, openapi.Schema{Type: openapi.Object, Properties: []openapi.Property{{Name: "field", Schema: &c.schema}}})
		d := openapi.Document{Group: "example.dev", Version: "v1", Kinds: []openapi.KindDoc{{Kind: "Widget", Plural: "widgets", Verbs: []string{"get"}, Schema: s}}}
		data, err := d.JSON()
		require.NoError(t, err)
		schemas := at(tree(t, string(data)), "components", "schemas")
		require.Equal(t, c.v3, encode(t, at(schemas, "dev.example.v1.Widget", "properties", "field")), c.name)
		data, err = openapi.Swagger{Documents: []openapi.Document{d}}.JSON()
		require.NoError(t, err)
		definitions := at(tree(t, string(data)), "definitions")
		require.Equal(t, c.v2, encode(t, at(definitions, "dev.example.v1.Widget", "properties", "field")), c.name)
		want := slices.Collect(maps.Keys(schemas.(map[string]any)))
		for _, kind := range []string{"meta.v1.APIVersions", "meta.v1.APIGroup", "meta.v1.APIGroupList"} { // of paths that v3 has not
			want = append(want, "io.k8s.apimachinery.pkg.apis."+kind)
		}
		want = append(want, "io.k8s.apimachinery.pkg.version.Info")
		require.ElementsMatch(t, want, slices.Collect(maps.Keys(definitions.(map[string]any))), "both publish the same schemas")
	}
}

func at(v any, path ...string) any {
	for _, name := range path {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

// This test only checks that the result is a message. internal/interop decodes it with gnostic
// itself.
func TestOAPI_01_SwaggerAsProtobuf(t *testing.T) {
	got, err := swagger(t).Protobuf()
	require.NoError(t, err)
	again, err := swagger(t).Protobuf()
	require.NoError(t, err)
	require.Equal(t, got, again)
	numbers := []int32{}
	for rest := got; len(rest) > 0; {
		var field protowire.Field
		field, rest, err = protowire.Next(rest)
		require.NoError(t, err)
		numbers = append(numbers, field.Number)
	}
	require.Equal(t, []int32{1, 2, 8, 9}, numbers)

	withTokens := swagger(t)
	withTokens.BearerToken = true
	more, err := withTokens.Protobuf()
	require.NoError(t, err)
	require.Equal(t, got, more[:len(got)])
	numbers = numbers[:0]
	for rest := more[len(got):]; len(rest) > 0; {
		var field protowire.Field
		field, rest, err = protowire.Next(rest)
		require.NoError(t, err)
		require.Contains(t, string(field.Bytes), "BearerToken")
		numbers = append(numbers, field.Number)
	}
	require.Equal(t, []int32{12, 13}, numbers, "security and securityDefinitions")

	bad := openapi.Swagger{Documents: []openapi.Document{{Version: "v1", Kinds: []openapi.KindDoc{{Kind: "Widget"}}}}}
	_, err = bad.JSON()
	require.ErrorContains(t, err, "Kind and Plural must be set")
	_, err = bad.Protobuf()
	require.Error(t, err)
}
