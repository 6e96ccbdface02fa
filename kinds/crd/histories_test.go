package crd_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/kinds/crd"
)

// history makes random changes of one definition.
type history struct {
	*rand.Rand
	spec tree
}

func newHistory(seed uint64) *history {
	h := &history{Rand: rand.New(rand.NewPCG(seed, 1))} //nolint:gosec // a test repeats it
	h.spec = tree{
		"group": "past.example.com", "scope": "Namespaced", "names": tree{"plural": "pasts", "singular": "past", "kind": "Past", "listKind": "PastList"},
		"versions": []any{h.version("v1", true), h.version("v2", false)},
	}
	return h
}

func (h *history) chance(percent int) bool { return h.IntN(100) < percent }

// version makes a version with some schema and some subresources.
func (h *history) version(name string, stored bool) tree {
	v := tree{"name": name, "served": !h.chance(30), "storage": stored, "schema": tree{"openAPIV3Schema": h.schema()}}
	h.equip(v)
	return v
}

func (h *history) schema() tree {
	properties := tree{"n": tree{"type": "integer"}, "s": tree{"type": "string"}, "r": tree{"type": "integer"}}
	for _, name := range []string{"a", "b", "c"} {
		if h.chance(50) {
			properties[name] = tree{"type": []string{"string", "boolean"}[h.IntN(2)], "description": fmt.Sprint("field ", h.IntN(3))}
		}
	}
	return tree{"type": "object", "properties": tree{"spec": tree{"type": "object", "properties": properties}, "status": tree{"type": "object", "properties": properties}}}
}

// equip gives a version other subresources, columns and selectable fields.
func (h *history) equip(v tree) {
	subresources := tree{}
	if h.chance(50) {
		subresources["status"] = tree{}
	}
	if h.chance(40) {
		subresources["scale"] = tree{"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}
	}
	v["subresources"] = subresources
	for _, key := range []string{"additionalPrinterColumns", "selectableFields", "deprecated"} {
		delete(v, key)
	}
	if h.chance(40) {
		v["additionalPrinterColumns"] = []any{tree{"name": fmt.Sprint("C", h.IntN(3)), "type": "integer", "jsonPath": ".spec.n"}}
	}
	if h.chance(40) { // not the same in all versions, which Kubernetes does not accept beside other schemas
		v["selectableFields"] = []any{tree{"jsonPath": map[any]string{"v1": ".spec.s", "v3": ".spec.s", "v2": ".spec.n", "v4": ".spec.n"}[v["name"]]}}
	}
	if h.chance(20) {
		v["deprecated"] = true
	}
}

// change changes one thing.
func (h *history) change() {
	versions := h.spec["versions"].([]any)
	one := versions[h.IntN(len(versions))].(tree)
	switch h.IntN(8) {
	case 0, 1:
		one["served"] = one["served"] != true
	case 2:
		for _, v := range versions {
			v.(tree)["storage"] = false
		}
		one["storage"] = true
	case 3:
		one["schema"] = tree{"openAPIV3Schema": h.schema()}
	case 4:
		h.equip(one)
	case 5:
		h.spec["names"].(tree)["categories"] = []any{[]string{"all", "past"}[h.IntN(2)]}
		h.spec["names"].(tree)["shortNames"] = []any{[]string{"pa", "ps"}[h.IntN(2)]}
	case 6:
		if name := fmt.Sprint("v", 1+h.IntN(4)); !slices.ContainsFunc(versions, func(v any) bool { return v.(tree)["name"] == name }) {
			h.spec["versions"] = slices.Insert(versions, h.IntN(len(versions)+1), any(h.version(name, false)))
		}
	default:
		h.Shuffle(len(versions), func(i, j int) { versions[i], versions[j] = versions[j], versions[i] })
	}
}

// document is the definition at present. Its versions differ at least in the titles of their schemas.
func (h *history) document() tree {
	for _, v := range h.spec["versions"].([]any) {
		v.(tree)["schema"].(tree)["openAPIV3Schema"].(tree)["title"] = v.(tree)["name"]
	}
	return tree{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": tree{"name": "pasts.past.example.com"}, "spec": h.spec}
}

// shown is what clients see of a definition, and in which forms they see an object.
func shown(t *testing.T, srv *apitest.Server) map[string]any {
	t.Helper()
	out := map[string]any{}
	look := func(path, accept string) (int, map[string]any) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+path, http.NoBody)
		require.NoError(t, err)
		r.Header.Set("Accept", accept)
		answer, err := srv.Client().Do(r)
		require.NoError(t, err)
		defer func() { _ = answer.Body.Close() }()
		var body map[string]any
		require.NoError(t, json.NewDecoder(answer.Body).Decode(&body), path)
		return answer.StatusCode, body
	}
	whole := func(path, accept string) {
		code, body := look(path, accept)
		for _, changing := range []string{"metadata", "rows"} {
			delete(body, changing)
		}
		out[path] = []any{code, body}
	}
	const plain, table = "application/json", "application/json;as=Table;g=meta.k8s.io;v=v1"
	whole("/apis/past.example.com", plain)
	for i := range 4 {
		version := fmt.Sprint("/apis/past.example.com/v", i+1)
		whole(version, plain)
		whole("/openapi/v3"+version, plain)
		for _, selector := range []string{"", "?fieldSelector=spec.s%3Da", "?fieldSelector=spec.n%3D1"} {
			whole(version+"/namespaces/default/pasts"+selector, table)
		}
		for _, sub := range []string{"", "/status", "/scale"} {
			code, body := look(version+"/namespaces/default/pasts/a"+sub, plain)
			out[version+"/a"+sub] = []any{code, body["apiVersion"], body["kind"], body["reason"]}
		}
	}
	return out
}

// makePast creates the object that shown looks at, if a version is served.
func makePast(t *testing.T, srv *apitest.Server, spec tree) bool {
	t.Helper()
	for _, v := range spec["versions"].([]any) {
		if name := v.(tree)["name"].(string); v.(tree)["served"] == true {
			code, answer := call(t, srv, "POST", "/apis/past.example.com/"+name+"/namespaces/default/pasts",
				`{"apiVersion":"past.example.com/`+name+`","kind":"Past","metadata":{"name":"a"},"spec":{"n":1}}`)
			require.Equal(t, 201, code, "%v", answer)
			return true
		}
	}
	return false
}

// A definition that has come about by many changes is served as one that was made as it is: nothing of its past is seen.
func TestCRD_04_ADefinitionShowsNothingOfItsPast(t *testing.T) {
	const definition = definitions + "/pasts.past.example.com"
	for seed := range uint64(effort.Of(30)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			h := newHistory(seed)
			old := start(t, crd.Kinds())
			establish(t, old, text(t, h.document()))
			made := makePast(t, old, h.spec)
			for step := range 12 {
				for range 1 + h.IntN(2) {
					h.change()
				}
				code, now := call(t, old, "GET", definition, "")
				require.Equal(t, 200, code)
				now["spec"] = h.document()["spec"]
				code, answer := call(t, old, "PUT", definition, text(t, now))
				require.Equal(t, 200, code, "%v", answer)
				made = made || makePast(t, old, h.spec)

				fresh := start(t, crd.Kinds())
				establish(t, fresh, text(t, h.document()))
				require.Equal(t, made, makePast(t, fresh, h.spec) || made)
				want, got := shown(t, fresh), shown(t, old)
				for _, path := range slices.Sorted(maps.Keys(want)) {
					if strings.Contains(path, "/a") && !made {
						continue
					}
					require.Equal(t, want[path], got[path], "step %d: %s", step, path)
				}
				fresh.Close()
			}
		})
	}
}
