package openapi_test

import (
	stdjson "encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
)

var update = flag.Bool("update", false, "rewrite testdata")

var allVerbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

func document(s *openapi.Schema) openapi.Document {
	item := []string{"get", "patch", "update"}
	return openapi.Document{Group: "example.dev", Version: "v1", Kinds: []openapi.KindDoc{
		{
			Kind: "Widget", Plural: "widgets", Namespaced: true, Verbs: allVerbs, Schema: s, Description: "A widget.",
			Subresources: []openapi.SubresourceDoc{
				{Name: "status", Verbs: item},
				{Name: "scale", Verbs: item, Kind: meta.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}, Schema: s},
				{Name: "eviction", Verbs: []string{"create"}},
			},
		},
		{Kind: "Zone", ListKind: "Zones", Plural: "zones", Verbs: []string{"get", "list"}, Schema: s},
	}}
}

// TestDocument_Golden compares a whole document, so that a reviewer sees every change of it.
func TestDocument_Golden(t *testing.T) {
	got, err := document(widget(t)).JSON()
	require.NoError(t, err)
	again, err := document(widget(t)).JSON()
	require.NoError(t, err)
	require.Equal(t, string(got), string(again), "the same bytes every time: they are hashed")

	const path = "testdata/example.dev_v1.json"
	pretty, err := json.Indent(nil, got)
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(path, append(pretty, '\n'), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(pretty)+"\n", "run with -update if this is meant")
}

type doc struct {
	OpenAPI    string
	Info       struct{ Title, Version string }
	Components struct{ Schemas map[string]map[string]any }
	Paths      map[string]map[string]stdjson.RawMessage
}

type op struct {
	OperationID string
	Parameters  []struct{ Name, In string }
	Action      string            `json:"x-kubernetes-action"`
	GVK         map[string]string `json:"x-kubernetes-group-version-kind"`
	RequestBody struct {
		Required bool
		Content  map[string]any
	}
	Responses map[string]struct{ Content map[string]any }
}

func parse(t *testing.T, d openapi.Document) doc {
	data, err := d.JSON()
	require.NoError(t, err)
	var out doc
	require.NoError(t, stdjson.Unmarshal(data, &out))
	return out
}

func (d doc) op(t *testing.T, path, method string) (o op) {
	require.Contains(t, d.Paths, path)
	require.Contains(t, d.Paths[path], method, path)
	require.NoError(t, stdjson.Unmarshal(d.Paths[path][method], &o))
	return o
}

func TestDocument_OAPI_04_PathsVerbsAndExtensions(t *testing.T) {
	d := parse(t, document(widget(t)))
	require.Equal(t, "3.0.0", d.OpenAPI)
	all, in, one := "/apis/example.dev/v1/widgets", "/apis/example.dev/v1/namespaces/{namespace}/widgets", "/apis/example.dev/v1/namespaces/{namespace}/widgets/{name}"
	widgetKind := map[string]string{"group": "example.dev", "version": "v1", "kind": "Widget"}
	for _, c := range []struct {
		path, method, action, id, parameters, gvkKind string
	}{
		{all, "get", "list", "listExampleDevV1WidgetForAllNamespaces", "labelSelector watch sendInitialEvents resourceVersionMatch continue", "Widget"},
		{in, "get", "list", "listExampleDevV1NamespacedWidget", "labelSelector fieldSelector limit continue allowWatchBookmarks timeoutSeconds", "Widget"},
		{in, "post", "post", "createExampleDevV1NamespacedWidget", "dryRun fieldManager fieldValidation", "Widget"},
		{in, "delete", "deletecollection", "deleteExampleDevV1CollectionNamespacedWidget", "labelSelector dryRun propagationPolicy", "Widget"},
		{one, "get", "get", "readExampleDevV1NamespacedWidget", "resourceVersion", "Widget"},
		{one, "put", "put", "replaceExampleDevV1NamespacedWidget", "dryRun fieldManager fieldValidation", "Widget"},
		{one, "patch", "patch", "patchExampleDevV1NamespacedWidget", "dryRun fieldManager fieldValidation force", "Widget"},
		{one, "delete", "delete", "deleteExampleDevV1NamespacedWidget", "dryRun gracePeriodSeconds propagationPolicy orphanDependents", "Widget"},
		{one + "/status", "get", "get", "readExampleDevV1NamespacedWidgetStatus", "", "Widget"},
		{one + "/status", "put", "put", "replaceExampleDevV1NamespacedWidgetStatus", "fieldValidation", "Widget"},
		{one + "/status", "patch", "patch", "patchExampleDevV1NamespacedWidgetStatus", "fieldValidation fieldManager force dryRun", "Widget"},
		{one + "/scale", "patch", "patch", "patchExampleDevV1NamespacedWidgetScale", "fieldValidation", "Scale"},
		{one + "/eviction", "post", "post", "createExampleDevV1NamespacedWidgetEviction", "fieldValidation", "Widget"},
		{"/apis/example.dev/v1/zones", "get", "list", "listExampleDevV1Zone", "labelSelector", "Zone"},
		{"/apis/example.dev/v1/zones/{name}", "get", "get", "readExampleDevV1Zone", "", "Zone"},
	} {
		o := d.op(t, c.path, c.method)
		require.Equal(t, c.action, o.Action, c.id)
		require.Equal(t, c.id, o.OperationID)
		require.Equal(t, c.gvkKind, o.GVK["kind"])
		for name := range strings.FieldsSeq(c.parameters) {
			require.True(t, slices.ContainsFunc(o.Parameters, func(p struct{ Name, In string }) bool { return p.Name == name && p.In == "query" }), "%s %s", c.id, name)
		}
		require.Contains(t, o.Responses, "200")
		require.Contains(t, o.Responses, "401")
	}
	require.Equal(t, widgetKind, d.op(t, one, "patch").GVK)
	require.Contains(t, d.op(t, one, "patch").RequestBody.Content, "application/apply-patch+yaml")
	require.Contains(t, d.op(t, all, "get").Responses["200"].Content, "application/json;stream=watch")
	require.True(t, d.op(t, in, "post").RequestBody.Required)
	require.False(t, d.op(t, one, "delete").RequestBody.Required)
	require.NotContains(t, d.Paths["/apis/example.dev/v1/zones"], "post")
	require.NotContains(t, d.Paths["/apis/example.dev/v1/zones/{name}"], "patch")
	require.NotContains(t, string(d.Paths["/apis/example.dev/v1/zones"]["get"]), "stream=watch")

	ids := map[string]string{}
	for path, item := range d.Paths {
		for _, p := range strings.Split(path, "/") {
			if strings.HasPrefix(p, "{") {
				require.Contains(t, string(item["parameters"]), `"name":"`+strings.Trim(p, "{}")+`"`, "%s declares its path parameters", path)
			}
		}
		for method, raw := range item {
			if method == "parameters" {
				continue
			}
			var o op
			require.NoError(t, stdjson.Unmarshal(raw, &o))
			require.Empty(t, ids[o.OperationID], "operation ids are unique: %s", o.OperationID)
			ids[o.OperationID] = path
		}
	}
}

func TestDocument_SchemasAndReferences(t *testing.T) {
	data, err := document(widget(t)).JSON()
	require.NoError(t, err)
	d := parse(t, document(widget(t)))
	require.Equal(t, []any{map[string]any{"group": "example.dev", "version": "v1", "kind": "Widget"}}, d.Components.Schemas["dev.example.v1.Widget"]["x-kubernetes-group-version-kind"])
	require.Equal(t, "A widget.", d.Components.Schemas["dev.example.v1.Widget"]["description"])
	for _, name := range []string{
		"dev.example.v1.WidgetList", "dev.example.v1.Zones", "io.k8s.api.autoscaling.v1.Scale", "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
		"io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta", "io.k8s.apimachinery.pkg.apis.meta.v1.Status", "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
		"io.k8s.apimachinery.pkg.apis.meta.v1.Patch", "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference",
	} {
		require.Contains(t, d.Components.Schemas, name)
	}
	for _, part := range strings.Split(string(data), `"$ref":"#/components/schemas/`)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		require.Contains(t, d.Components.Schemas, name, "references lead somewhere")
	}
	properties := d.Components.Schemas["dev.example.v1.Widget"]["properties"].(map[string]any)
	metadata := properties["metadata"].(map[string]any)
	require.NotEmpty(t, metadata["description"], "kubectl explain shows it")
	require.Equal(t, []any{map[string]any{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}}, metadata["allOf"])
}

// Clients that are generated from the document have methods for the paths of watches, where they are served.
func TestDocument_PATH_24_PathsOfWatches(t *testing.T) {
	described := document(widget(t))
	for path := range parse(t, described).Paths {
		require.NotContains(t, path, "/watch/")
	}
	described.WatchPaths = true
	d := parse(t, described)
	const below = "/apis/example.dev/v1/watch/"
	for path, want := range map[string][2]string{
		"widgets":                               {"watchlist", "watchExampleDevV1WidgetListForAllNamespaces"},
		"namespaces/{namespace}/widgets":        {"watchlist", "watchExampleDevV1NamespacedWidgetList"},
		"namespaces/{namespace}/widgets/{name}": {"watch", "watchExampleDevV1NamespacedWidget"},
	} {
		o := d.op(t, below+path, "get")
		require.Equal(t, want, [2]string{o.Action, o.OperationID})
		require.Equal(t, "Widget", o.GVK["kind"])
		require.Contains(t, o.Responses["200"].Content, "application/json;stream=watch")
		require.Contains(t, string(d.Paths[below+path]["get"]), "meta.v1.WatchEvent")
		for _, name := range []string{"{name}", "{namespace}"} {
			if strings.Contains(path, name) {
				require.Contains(t, string(d.Paths[below+path]["parameters"]), `"name":"`+strings.Trim(name, "{}")+`"`)
			}
		}
	}
	require.NotContains(t, d.Paths, below+"zones", "they cannot be watched")
	v2, err := openapi.Swagger{Documents: []openapi.Document{described}}.JSON()
	require.NoError(t, err)
	require.Contains(t, string(v2), `"`+below+`namespaces/{namespace}/widgets/{name}":`)
}

func TestDocument_CoreGroup(t *testing.T) {
	d := parse(t, openapi.Document{Version: "v1", Kinds: []openapi.KindDoc{{Kind: "Namespace", Plural: "namespaces", Verbs: allVerbs, Schema: widget(t)}}})
	require.Contains(t, d.Components.Schemas, "io.k8s.api.core.v1.Namespace")
	require.Equal(t, "readCoreV1Namespace", d.op(t, "/api/v1/namespaces/{name}", "get").OperationID)
	require.Contains(t, d.Paths, "/api/v1/")
}

func TestDocument_Bad(t *testing.T) {
	for want, d := range map[string]openapi.Document{
		"Version must be set":         {},
		"Kind and Plural must be set": {Version: "v1", Kinds: []openapi.KindDoc{{Kind: "Widget"}}},
		"needs a schema":              {Version: "v1", Kinds: []openapi.KindDoc{{Kind: "Widget", Plural: "widgets", Schema: &openapi.Schema{}}}},
		"Name of a subresource":       {Version: "v1", Kinds: []openapi.KindDoc{{Kind: "Widget", Plural: "widgets", Schema: widget(t), Subresources: []openapi.SubresourceDoc{{}}}}},
		"subresource x needs":         {Version: "v1", Kinds: []openapi.KindDoc{{Kind: "Widget", Plural: "widgets", Schema: widget(t), Subresources: []openapi.SubresourceDoc{{Name: "x", Schema: &openapi.Schema{}}}}}},
	} {
		_, err := d.JSON()
		require.ErrorContains(t, err, want)
	}
}

// FromTree reads what a document publishes of a schema with the same meaning.
func TestDocument_RoundTripsThroughFromTree(t *testing.T) {
	s, errs := openapi.FromTree(tree(t, structural))
	require.Empty(t, errs)
	data, err := openapi.Document{Group: "example.dev", Version: "v1", Kinds: []openapi.KindDoc{{Kind: "Widget", Plural: "widgets", Schema: s}}}.JSON()
	require.NoError(t, err)
	published := tree(t, string(data))["components"].(map[string]any)["schemas"].(map[string]any)["dev.example.v1.Widget"].(map[string]any)
	properties := published["properties"].(map[string]any)
	delete(properties, "metadata")
	embedded := properties["spec"].(map[string]any)["properties"].(map[string]any)["object"].(map[string]any)
	delete(embedded["properties"].(map[string]any), "metadata")
	again, errs := openapi.FromTree(published)
	require.Empty(t, errs)
	require.Equal(t, s.Fingerprint(), again.Fingerprint())
}

func TestIndex_OAPI_02(t *testing.T) {
	index, err := openapi.Index("/shop/", []openapi.IndexEntry{{Group: "example.dev", Version: "v1", Hash: openapi.Hash([]byte("x"))}, {Version: "v1", Hash: "B"}})
	require.NoError(t, err)
	require.Equal(t, `{"paths":{"api/v1":{"serverRelativeURL":"/shop/openapi/v3/api/v1?hash=B"},`+
		`"apis/example.dev/v1":{"serverRelativeURL":"/shop/openapi/v3/apis/example.dev/v1?hash=2D711642B726B04401627CA9FBAC32F5C8530FB1903CC4DB02258717921A4881"}}}`, string(index))
	index, err = openapi.Index("", nil)
	require.NoError(t, err)
	require.Equal(t, `{"paths":{}}`, string(index))
}
