package crd_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/kinds/crd"
)

// definition returns a definition with versions in the form of the API.
func definition(group, plural, kind, versions string) string {
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[2]s.%[1]s"},
		"spec":{"group":%[1]q,"scope":"Namespaced","names":{"plural":%[2]q,"kind":%[3]q},"versions":[%[4]s]}}`, group, plural, kind, versions)
}

func servedAs(name string, storage bool, schema string) string {
	return fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"schema":{"openAPIV3Schema":%s}}`, name, storage, schema)
}

// groups returns the names of the listed groups.
func groups(t *testing.T, srv *apitest.Server) (names []string) {
	t.Helper()
	_, answer := call(t, srv, "GET", "/apis", "")
	for _, g := range answer["groups"].([]any) {
		names = append(names, g.(map[string]any)["name"].(string))
	}
	return names
}

// Groups that clients define are listed after those of the program, so no definition takes over a
// word that a program's group has.
func TestDISC_02_DefinedGroupsComeLast(t *testing.T) {
	srv := start(t, crd.Kinds())
	before := groups(t, srv)
	const plain = `{"type":"object"}`
	establish(t, srv, definition("a.example.com", "leases", "Lease", servedAs("v1", true, plain)))
	establish(t, srv, definition("b.example.com", "foos", "Foo", servedAs("v1", true, plain)))
	require.Equal(t, append(before, "a.example.com", "b.example.com"), groups(t, srv))
}

// gvks counts the definitions of a document that claim a kind.
func gvks(definitions map[string]any) map[string]int {
	count := map[string]int{}
	for _, d := range definitions {
		list, _ := d.(map[string]any)["x-kubernetes-group-version-kind"].([]any)
		for _, gvk := range list {
			count[fmt.Sprint(gvk)]++
		}
	}
	return count
}

// Kinds of one group version share a document, in which no type appears twice. The documents follow
// what the definitions say.
func TestOAPI_04_DocumentsFollowDefinitions(t *testing.T) {
	srv := start(t, crd.Kinds())
	const group = "shop.example.com"
	spec := func(of string) string { return `{"type":"object","properties":{"spec":` + of + `}}` }
	establish(t, srv, definition(group, "foos", "Foo", servedAs("v1", true, spec(`{"type":"object","properties":{"a":{"type":"string","nullable":true}}}`))))
	establish(t, srv, definition(group, "bars", "Bar", servedAs("v1", true, spec(`{"type":"object","x-kubernetes-preserve-unknown-fields":true}`))+","+
		servedAs("v2", false, `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`)))

	document := func(version string) map[string]any {
		code, answer := call(t, srv, "GET", "/openapi/v3/apis/"+group+"/"+version, "")
		require.Equal(t, 200, code)
		return answer["components"].(map[string]any)["schemas"].(map[string]any)
	}
	one := document("v1")
	for _, kind := range []string{"Foo", "FooList", "Bar", "BarList"} {
		require.Contains(t, one, "com.example.shop.v1."+kind)
	}
	for gvk, n := range gvks(one) {
		require.Equal(t, 1, n, gvk)
	}
	require.NotContains(t, document("v2"), "com.example.shop.v2.Foo")

	_, swagger := call(t, srv, "GET", "/openapi/v2", "")
	definitions := swagger["definitions"].(map[string]any)
	for gvk, n := range gvks(definitions) {
		require.Equal(t, 1, n, gvk)
	}
	foo := definitions["com.example.shop.v1.Foo"].(map[string]any)
	require.Equal(t, map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{}}}, foo["properties"].(map[string]any)["spec"])
	require.NotContains(t, definitions["com.example.shop.v2.Bar"], "properties", "any field is allowed")

	_, now := call(t, srv, "GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/bars."+group, "")
	versions := now["spec"].(map[string]any)["versions"].([]any)
	versions[1].(map[string]any)["served"] = false
	code, answer := call(t, srv, "PUT", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/bars."+group, text(t, now))
	require.Equal(t, 200, code, "%v", answer)
	require.Eventually(t, func() bool {
		_, index := call(t, srv, "GET", "/openapi/v3", "")
		_, there := index["paths"].(map[string]any)["apis/"+group+"/v2"]
		return !there
	}, time.Minute, time.Millisecond)
}
