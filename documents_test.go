package kindwright_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	requests "github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

type lamp struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Spec            lampSpec `json:"spec"`
}

type lampSpec struct {
	Watts int32      `json:"watts" minimum:"1" maximum:"60" doc:"What it takes."`
	Color string     `json:"color,omitempty" enum:"warm,cold" default:"warm"`
	Bulbs []lampBulb `json:"bulbs,omitempty" list:"map,key=name"`
}

type lampBulb struct {
	Name string `json:"name"`
	Lit  bool   `json:"lit,omitempty"`
}

// brightLamp is the same kind one release later.
type brightLamp struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Spec            brightSpec `json:"spec"`
}

type brightSpec struct {
	Watts int32      `json:"watts" minimum:"1" maximum:"600" doc:"What it takes."`
	Color string     `json:"color,omitempty" enum:"warm,cold" default:"cold"`
	Dim   bool       `json:"dim,omitempty"`
	Bulbs []lampBulb `json:"bulbs,omitempty" list:"atomic"`
}

func lamps[T any]() registry.Kind[T] {
	return registry.Kind[T]{Group: "example.dev", Version: "v1", Plural: "lamps", Names: registry.Names{Kind: "Lamp"}}
}

const (
	swaggerAsked = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
	swaggerSent  = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
)

func TestOAPI_01_SwaggerOverHTTP(t *testing.T) {
	h := run(t, kindwright.Serve(lamps[lamp]()))
	code, doc := h.do("GET", "/openapi/v2", "")
	require.Equal(t, 200, code)
	require.Equal(t, "2.0", doc["swagger"])
	for _, name := range []string{"dev.example.v1.Lamp", "dev.example.v1.Gadget", "io.k8s.api.core.v1.Namespace", "io.k8s.authentication.v1.SelfSubjectReview"} {
		require.NotNil(t, field(doc, "definitions", name), name)
	}
	require.NotNil(t, field(doc, "paths", "/apis/authentication.k8s.io/v1/selfsubjectreviews", "post"), "reviews can be created")

	for accept, want := range map[string]string{"": "application/json", swaggerAsked: swaggerSent} {
		plain := h.request("GET", "/openapi/v2", "", "Accept", accept)
		body, err := io.ReadAll(plain.Body)
		require.NoError(t, err)
		require.Equal(t, 200, plain.StatusCode)
		require.Equal(t, want, plain.Header.Get("Content-Type"))

		packed := h.request("GET", "/openapi/v2", "", "Accept", accept, "Accept-Encoding", "gzip")
		require.Equal(t, "gzip", packed.Header.Get("Content-Encoding"))
		unpacked, err := gzip.NewReader(packed.Body)
		require.NoError(t, err)
		same, err := io.ReadAll(unpacked)
		require.NoError(t, err)
		require.Equal(t, body, same)

		again := h.request("GET", "/openapi/v2", "", "Accept", accept, "If-None-Match", plain.Header.Get("Etag"))
		require.Equal(t, http.StatusNotModified, again.StatusCode)
	}
	require.Equal(t, 406, h.request("GET", "/openapi/v2", "", "Accept", "application/yaml").StatusCode)
	require.Equal(t, 403, h.request("GET", "/openapi/v2", "", "X-Groups", "").StatusCode, "as for every path")
}

// OAPI-02 to OAPI-04: the index leads to documents that can be kept, whose operations say what clients look for.
func TestOAPI_02_03_04_DocumentsOfGroupVersions(t *testing.T) {
	h := run(t, kindwright.Serve(lamps[lamp]()))
	_, index := h.do("GET", "/openapi/v3", "")
	address, _ := field(index, "paths", "apis/example.dev/v1", "serverRelativeURL").(string)
	require.Regexp(t, `^/openapi/v3/apis/example\.dev/v1\?hash=[0-9A-F]{64}$`, address)
	answer := h.request("GET", address, "")
	require.Equal(t, 200, answer.StatusCode)
	require.Equal(t, "public, immutable", answer.Header.Get("Cache-Control"))
	stale := h.request("GET", "/openapi/v3/apis/example.dev/v1?hash=OLD", "")
	require.Equal(t, 301, stale.StatusCode)
	require.Equal(t, address, stale.Header.Get("Location"))

	_, doc := h.do("GET", address, "")
	item := field(doc, "paths", "/apis/example.dev/v1/namespaces/{namespace}/lamps/{name}")
	for method, action := range map[string]string{"get": "get", "put": "put", "patch": "patch", "delete": "delete"} {
		require.Equal(t, action, field(item, method, "x-kubernetes-action"))
		require.Equal(t, map[string]any{"group": "example.dev", "version": "v1", "kind": "Lamp"}, field(item, method, "x-kubernetes-group-version-kind"))
	}
	collection := field(doc, "paths", "/apis/example.dev/v1/namespaces/{namespace}/lamps")
	for method, action := range map[string]string{"get": "list", "post": "post", "delete": "deletecollection"} {
		require.Equal(t, action, field(collection, method, "x-kubernetes-action"))
	}
	for method, want := range map[string][]string{
		"patch": {"fieldValidation", "fieldManager", "force", "dryRun"}, "delete": {"gracePeriodSeconds", "propagationPolicy", "orphanDependents", "dryRun"},
	} {
		require.Subset(t, parameters(field(item, method)), want)
	}
	require.Subset(t, parameters(field(collection, "get")), []string{
		"labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "resourceVersionMatch", "watch", "allowWatchBookmarks", "sendInitialEvents", "timeoutSeconds",
	})
	for _, patch := range []string{"application/merge-patch+json", "application/json-patch+json", "application/apply-patch+yaml"} {
		require.Contains(t, field(item, "patch", "requestBody", "content"), patch)
	}
	require.NotContains(t, field(item, "patch", "requestBody", "content"), "application/strategic-merge-patch+json", "kubectl would send it where it cannot")
	bulbs := field(doc, "components", "schemas", "dev.example.v1.Lamp", "properties", "spec", "properties", "bulbs")
	require.Equal(t, "map", field(bulbs, "x-kubernetes-list-type"))
	require.Equal(t, []any{"name"}, field(bulbs, "x-kubernetes-list-map-keys"))

	_, core := h.do("GET", "/openapi/v3/api/v1", "")
	patch := field(core, "paths", "/api/v1/namespaces/{name}", "patch")
	require.Contains(t, field(patch, "requestBody", "content"), "application/strategic-merge-patch+json")
	require.Contains(t, field(patch, "responses", "200", "content"), "application/vnd.kubernetes.protobuf")
}

// Clients that are generated from the documents send a token only where these say that there are tokens.
// kube-apiserver names the scheme BearerToken.
func TestOAPI_01_02_DocumentsNameTheBearerToken(t *testing.T) {
	h := run(t, kindwright.Serve(lamps[lamp]()))
	_, v2 := h.do("GET", "/openapi/v2", "")
	_, v3 := h.do("GET", "/openapi/v3/apis/example.dev/v1", "")
	require.Equal(t, []any{map[string]any{"BearerToken": []any{}}}, v2["security"])
	for _, scheme := range []any{field(v2, "securityDefinitions", "BearerToken"), field(v3, "components", "securitySchemes", "BearerToken")} {
		require.NotNil(t, scheme)
		require.Equal(t, []any{"apiKey", "header", "authorization"}, []any{field(scheme, "type"), field(scheme, "in"), field(scheme, "name")})
	}
}

// OAPI-05: clients that are generated from the documents read what a deletion answers with the type that
// these name. They cannot read an object as a Status.
func TestOAPI_05_DEL_14_DocumentsSayWhatADeletionAnswers(t *testing.T) {
	whole, usual := lamps[lamp](), lamps[lamp]()
	whole.Deletion.AnswerObject = true
	usual.Plural, usual.Names.Kind = "bulbs", "Bulb"
	h := run(t, kindwright.Serve(whole, usual))
	const lampsOf, bulbsOf = "/apis/example.dev/v1/namespaces/{namespace}/lamps", "/apis/example.dev/v1/namespaces/{namespace}/bulbs"
	const schema, statusSchema = "dev.example.v1.Lamp", "io.k8s.apimachinery.pkg.apis.meta.v1.Status"
	_, v2 := h.do("GET", "/openapi/v2", "")
	_, v3 := h.do("GET", "/openapi/v3/apis/example.dev/v1", "")
	for path, want := range map[string]string{lampsOf + "/{name}": schema, lampsOf: statusSchema, bulbsOf + "/{name}": statusSchema} {
		require.Equal(t, "#/definitions/"+want, field(v2, "paths", path, "delete", "responses", "200", "schema", "$ref"), path)
		require.Equal(t, "#/components/schemas/"+want,
			field(v3, "paths", path, "delete", "responses", "200", "content", "application/json", "schema", "$ref"), path)
	}
	for plural, want := range map[string]string{"lamps": "Lamp", "bulbs": "Status"} {
		const here = "/apis/example.dev/v1/namespaces/default/"
		code, _ := h.do("POST", here+plural, `{"metadata":{"name":"a"},"spec":{"watts":5}}`)
		require.Equal(t, 201, code)
		code, answer := h.do("DELETE", here+plural+"/a", "")
		require.Equal(t, 200, code)
		require.Equal(t, want, answer["kind"])
	}
}

func parameters(operation any) (names []string) {
	list, _ := field(operation, "parameters").([]any)
	for _, p := range list {
		names = append(names, fmt.Sprint(field(p, "name")))
	}
	return names
}

// OAPI-05: one schema is behind everything, so a change of it is a change of everything at once.
func TestOAPI_05_ChangeASchemaAndAllFollow(t *testing.T) {
	const path = "/apis/example.dev/v1/namespaces/default/lamps"
	object := func(name string, watts int) string {
		return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"watts":%d,"dim":true,"bulbs":[{"name":"a"}]}}`, name, watts)
	}
	for _, c := range []struct {
		kind     kindwright.Option
		maximum  float64
		color    string
		dim      any
		warned   bool
		listType string
		bulbs    int
	}{
		{kindwright.Serve(lamps[lamp]()), 60, "warm", nil, true, "map", 2},
		{kindwright.Serve(lamps[brightLamp]()), 600, "cold", true, false, "atomic", 1},
	} {
		h := run(t, c.kind)
		_, v3 := h.do("GET", "/openapi/v3/apis/example.dev/v1", "")
		_, v2 := h.do("GET", "/openapi/v2", "")
		for _, spec := range []any{
			field(v3, "components", "schemas", "dev.example.v1.Lamp", "properties", "spec", "properties"),
			field(v2, "definitions", "dev.example.v1.Lamp", "properties", "spec", "properties"),
		} { // documentation
			require.Equal(t, c.maximum, field(spec, "watts", "maximum"))
			require.Equal(t, c.color, field(spec, "color", "default"))
			require.Equal(t, c.listType, field(spec, "bulbs", "x-kubernetes-list-type"))
			require.Equal(t, c.dim != nil, field(spec, "dim") != nil)
		}
		answer := h.request("POST", path, object("a", int(c.maximum)))
		require.Equal(t, 201, answer.StatusCode)
		require.Equal(t, c.warned, strings.Contains(answer.Header.Get("Warning"), `unknown field \"spec.dim\"`), "%v", answer.Header)
		var made map[string]any
		require.NoError(t, json.NewDecoder(answer.Body).Decode(&made))
		require.Equal(t, c.dim, field(made, "spec", "dim"), "pruning")
		require.Equal(t, c.color, field(made, "spec", "color"), "defaulting")
		code, refused := h.do("POST", path, object("b", int(c.maximum)+1))
		require.Equal(t, 422, code, "validation")
		require.Contains(t, refused["message"], fmt.Sprintf("spec.watts in body should be less than or equal to %v", c.maximum))

		for i, bulb := range []string{"b", "c"} { // apply: two managers with a bulb each
			body := fmt.Sprintf(`{"apiVersion":"example.dev/v1","kind":"Lamp","metadata":{"name":"d"},"spec":{"watts":1,"bulbs":[{"name":%q}]}}`, bulb)
			code, made = h.do("PATCH", path+fmt.Sprintf("/d?force=true&fieldManager=m%d", i), body, "Content-Type", "application/apply-patch+yaml")
			require.Less(t, code, 300, "%v", made)
		}
		require.Len(t, field(made, "spec", "bulbs"), c.bulbs, "apply")
	}
}

// A change of one group version leaves the documents of the others, and is seen in its own.
func TestDocumentsFollowAChangeOfTheirGroupVersion(t *testing.T) {
	h := run(t, kindwright.Serve(lamps[lamp]()))
	tag := func(path string) string { return h.request("GET", path, "").Header.Get("Etag") }
	const own, other = "/openapi/v3/apis/example.dev/v1", "/openapi/v3/api/v1"
	all, before, beside := tag("/openapi/v2"), tag(own), tag(other)
	lampName := meta.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "lamps"}
	require.NoError(t, h.Change(t.Context(), []meta.GroupVersionResource{lampName}, lamps[brightLamp]()))
	require.NotEqual(t, before, tag(own))
	require.NotEqual(t, all, tag("/openapi/v2"))
	require.Equal(t, beside, tag(other))
	require.NoError(t, h.Change(t.Context(), []meta.GroupVersionResource{lampName}, lamps[lamp]()))
	require.Equal(t, before, tag(own))
	require.Equal(t, all, tag("/openapi/v2"))
}

// The parameters of an operation in the documents are those that the server reads of such a request. Those that are read and
// not published are named here.
func TestPublishedParametersAreRead(t *testing.T) {
	unpublished := []string{"timeout", "uid", "includeObject", "export"}
	h := run(t, kindwright.Serve(lamps[lamp]()))
	_, doc := h.do("GET", "/openapi/v3/apis/example.dev/v1", "")
	paths, _ := field(doc, "paths").(map[string]any)
	operations, all := map[string][]string{}, slices.Clone(unpublished)
	for path, item := range paths {
		if !strings.Contains(path, "/lamps") {
			continue // a discovery document
		}
		of := parameters(item)
		path = strings.NewReplacer("{namespace}", "n", "{name}", "x").Replace(path)
		for _, method := range []string{"get", "post", "put", "patch", "delete"} {
			if operation := field(item, method); operation != nil {
				names := slices.DeleteFunc(append(parameters(operation), of...), func(name string) bool { return name == "name" || name == "namespace" })
				operations[strings.ToUpper(method)+" "+path] = names
				all = append(all, names...)
			}
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	require.Subset(t, all, []string{"watch", "dryRun", "force", "pretty"})
	// read reports whether a parameter of a request is read: one that has two values is an error then, but for dryRun.
	read := func(line, name string) bool {
		method, path, _ := strings.Cut(line, " ")
		for _, query := range []string{"", "watch=true&"} {
			info, err := requests.Parse(httptest.NewRequest(method, path+"?"+query+name+"=1&"+name+"=0", nil), "")
			if err != nil || len(info.Query.DryRun) > 0 {
				return true
			}
		}
		return false
	}
	for line, names := range operations {
		for _, name := range all {
			require.Equal(t, slices.Contains(names, name), read(line, name) && !slices.Contains(unpublished, name), "%s: %s", line, name)
		}
	}
}
