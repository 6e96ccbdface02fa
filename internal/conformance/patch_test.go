package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
)

const (
	jsonPatchType = "application/json-patch+json"
	strategicType = "application/strategic-merge-patch+json"
	applyType     = "application/apply-patch+yaml"
)

// bare is a kind without a Go type, described only by a schema document.
type bare struct{ document string }

const barePath = "/apis/shop.example.com/v1/namespaces/default/bares"

// Define makes bare a definition.
func (b bare) Define(registry.Env) (registry.Bundle, error) {
	var tree map[string]any
	if err := json.Unmarshal([]byte(b.document), &tree); err != nil {
		return registry.Bundle{}, err
	}
	schema, problems := openapi.FromTree(tree)
	if len(problems) > 0 {
		return registry.Bundle{}, fmt.Errorf("%v", problems)
	}
	return registry.Bundle{Resources: []*registry.Resource{{
		Group: group, Version: "v1", Schema: schema, Plural: "bares", Names: registry.Names{Kind: "Bare"},
	}}}, nil
}

const bareSchema = `{"type":"object","properties":{"apiVersion":{"type":"string"},"kind":{"type":"string"},"metadata":{"type":"object"},"spec":{"type":"object",` +
	`"x-kubernetes-preserve-unknown-fields":true,"properties":{"keyed":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],` +
	`"items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"value":{"type":"string"}}}},"whole":{"type":"array","items":{"type":"string"}}}}}}`

func (s *server) change(path, contentType, body string) *answer {
	s.t.Helper()
	return s.do("PATCH", path, body, "Content-Type", contentType)
}

func spec(a *answer) string {
	out, _ := json.Marshal(a.at("spec"))
	return string(out)
}

// The verb is patch, whatever the result: the authorizer also sees create only if an apply creates.
func TestPATCH_01_TheOperationIsPatch(t *testing.T) {
	var asked, admitted []string
	spy := authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		if a.Resource == "crates" && a.Verb != "get" {
			asked = append(asked, a.Verb)
		}
		return authz.Allow, "", nil
	})
	plugin := admission.Plugin{Name: "spy", Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
		admitted = append(admitted, string(r.Operation))
		return nil
	})}
	onCrates(t, func(t *testing.T, s *server) {
		asked, admitted = nil, nil
		patch := func(name, contentType, body string) *answer {
			return s.do("PATCH", cratePath+"/"+name+"?fieldManager=m", body, "Content-Type", contentType, "X-User", "bob", "X-Groups", "")
		}
		patch("a", applyType, crateJSON("a", "")).is(201)
		require.Equal(t, []string{"patch", "create"}, asked)
		require.Equal(t, []string{"CREATE"}, admitted)
		asked, admitted = nil, nil
		patch("a", applyType, crateJSON("a", `"size":2`)).is(200)
		patch("a", mergeType, `{"spec":{"size":3}}`).is(200)
		patch("a", strategicType, `{"spec":{"size":4}}`).is(200)
		patch("a", jsonPatchType, `[{"op":"replace","path":"/spec/size","value":5}]`).is(200)
		require.Equal(t, []string{"patch", "patch", "patch", "patch"}, asked)
		require.Equal(t, []string{"UPDATE", "UPDATE", "UPDATE", "UPDATE"}, admitted)
	}, kindwright.Authorize(spy), kindwright.Admit(plugin))
}

func TestPATCH_02_PATCH_11_ApplyCreatesOrPatches(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.untouched(cratePath, func() {
			s.change(cratePath+"/a?fieldManager=m&dryRun=All", applyType, crateJSON("a", `"size":1`)).is(201)
		})
		created := s.change(cratePath+"/a?fieldManager=m", applyType, crateJSON("a", `"size":1`)).is(201)
		require.Regexp(t, uuid, created.at("metadata", "uid"))
		require.Equal(t, "blue", created.at("spec", "color"), "defaults are filled in")
		patched := s.change(cratePath+"/a?fieldManager=m", applyType, crateJSON("a", `"size":2`)).is(200)
		require.Equal(t, created.at("metadata", "uid"), patched.at("metadata", "uid"))
		require.InDelta(t, 2, patched.at("spec", "size"), 0)
		for contentType, body := range map[string]string{mergeType: `{"spec":{"size":3}}`, strategicType: `{"spec":{"size":4}}`, jsonPatchType: `[{"op":"remove","path":"/spec/size"}]`} {
			s.change(cratePath+"/a", contentType, body).is(200)
		}
		s.change("/apis/shop.example.com/v1/namespaces/absent/crates/a?fieldManager=m", applyType, crateJSON("a", "")).refused(404, "NotFound", `namespaces "absent" not found`)
		s.change(cratePath+"/a/status?fieldManager=m", applyType, `{"apiVersion":"shop.example.com/v1","kind":"Crate","metadata":{"name":"a"},"status":{"phase":"x"}}`).is(200)
		s.change(cratePath+"/absent/status?fieldManager=m", applyType, `{"apiVersion":"shop.example.com/v1","kind":"Crate","metadata":{"name":"absent"},"status":{"phase":"x"}}`).refused(404, "NotFound", "")
	})
}

func TestPATCH_03_TheTypeSelectsTheFormat(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		for contentType, want := range map[string]string{
			mergeType:     `{"color":"blue","parts":[{"count":1,"name":"b"}],"tags":["y"]}`,
			strategicType: `{"color":"blue","parts":[{"count":1,"name":"b"},{"count":1,"name":"a"}],"tags":["y","x"]}`,
			applyType:     `{"color":"blue","parts":[{"count":1,"name":"a"},{"count":1,"name":"b"}],"tags":["x","y"]}`,
		} {
			s.crate("a", `"parts":[{"name":"a"}],"tags":["x"]`)
			for _, header := range []string{contentType, strings.ToUpper(contentType), contentType + "; charset=utf-8", contentType + ";x=y"} {
				got := s.change(cratePath+"/a?fieldManager=m", header, crateJSON("a", `"parts":[{"name":"b"}],"tags":["y"]`)).is(200)
				require.JSONEq(t, want, spec(got), "%s", contentType)
			}
			s.delete(cratePath + "/a")
		}
		s.crate("a", "")
		s.refuses("PATCH", cratePath+"/a", `{"spec":{"size":3}}`, jsonPatchType, 400, "BadRequest", "")
		s.refuses("PATCH", cratePath+"/a", `[]`, mergeType, 400, "BadRequest", "")
	})
}

func TestPATCH_04_AVersionInThePatchIsAPrecondition(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		old := s.crate("a", `"size":1`)
		now := s.patch(cratePath+"/a", `{"spec":{"size":2}}`)
		meta := func(field, value string) map[string]string {
			return map[string]string{
				mergeType: fmt.Sprintf(`{"metadata":{%q:%q},"spec":{"size":3}}`, field, value), strategicType: fmt.Sprintf(`{"metadata":{%q:%q},"spec":{"size":3}}`, field, value),
				jsonPatchType: fmt.Sprintf(`[{"op":"replace","path":"/metadata/%s","value":%q},{"op":"add","path":"/spec/size","value":3}]`, field, value),
				applyType:     fmt.Sprintf(`{"apiVersion":"shop.example.com/v1","kind":"Crate","metadata":{"name":"a",%q:%q},"spec":{"text":"x"}}`, field, value),
			}
		}
		for contentType, body := range meta("resourceVersion", old.version()) {
			s.refuses("PATCH", cratePath+"/a?fieldManager=m", body, contentType, 409, "Conflict", "the object has been modified")
		}
		for contentType, body := range meta("uid", "11111111-2222-4333-8444-555555555555") {
			s.refuses("PATCH", cratePath+"/a?fieldManager=m", body, contentType, 422, "Invalid", "metadata.uid")
		}
		for contentType, body := range meta("resourceVersion", "x5") {
			s.refuses("PATCH", cratePath+"/a?fieldManager=m", body, contentType, 400, "BadRequest", "resource version")
		}
		for contentType := range meta("resourceVersion", "") {
			s.change(cratePath+"/a?fieldManager=m", contentType, meta("resourceVersion", now.version())[contentType]).is(200)
			s.change(cratePath+"/a?fieldManager=m", contentType, meta("uid", old.text("metadata", "uid"))[contentType]).is(200)
			now = s.patch(cratePath+"/a", `{"spec":{"size":2}}`)
		}
	})
}

func TestPATCH_05_ApplyTakesYAMLAndJSON(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		fromJSON := s.change(cratePath+"/a?fieldManager=m", applyType, crateJSON("a", `"size":3,"parts":[{"name":"x"}],"notes":{"no":"yes"}`)).is(201)
		fromYAML := s.change(cratePath+"/b?fieldManager=m", applyType, "# a comment\napiVersion: shop.example.com/v1\nkind: Crate\nmetadata: {name: b}\nspec:\n  size: 3\n  parts:\n  - name: x\n  notes: {\"no\": \"yes\"}\n").is(201)
		require.Equal(t, spec(fromJSON), spec(fromYAML))
		require.Equal(t, at(fromJSON.at("metadata", "managedFields").([]any)[0], "fieldsV1"), at(fromYAML.at("metadata", "managedFields").([]any)[0], "fieldsV1"))
		for _, body := range []string{"", "null", "7", "[]", "a", "a: [", "{", "a: 1\n---\nb: 2\n", "? [a]: b", "a: *x", "\tx: y", "a: 1\na: 2: 3"} {
			got := s.refuses("PATCH", cratePath+"/c?fieldManager=m", body, applyType, 400, "BadRequest", "")
			require.NotContains(t, got.text("message"), "goroutine")
		}
	})
}

func TestPATCH_06_PATCH_07_JSONPatchIsAllOrNothing(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.crate("a", `"size":1,"lines":["a","b"],"notes":{"x":"1","a/b":"2","m~n":"3"}`)
		got := s.change(cratePath+"/a", jsonPatchType, `[{"op":"test","path":"/spec/size","value":1},{"op":"add","path":"/spec/lines/1","value":"new"},{"op":"add","path":"/spec/lines/-","value":"last"},`+
			`{"op":"remove","path":"/spec/lines/0"},{"op":"replace","path":"/spec/size","value":2},{"op":"move","from":"/spec/notes/a~1b","path":"/spec/notes/moved"},`+
			`{"op":"copy","from":"/spec/notes/m~0n","path":"/spec/notes/copied"},{"op":"test","path":"/spec/lines","value":["new","b","last"]},{"op":"test","path":"/spec/size","value":2.0}]`).is(200)
		require.JSONEq(t, `{"color":"blue","size":2,"lines":["new","b","last"],"notes":{"x":"1","moved":"2","m~n":"3","copied":"3"}}`, spec(got))
		for what, last := range map[string]string{
			"test": `{"op":"test","path":"/spec/size","value":2}`, "test of nothing": `{"op":"test","path":"/spec/absent","value":1}`, "remove": `{"op":"remove","path":"/spec/absent"}`,
			"replace": `{"op":"replace","path":"/spec/absent","value":1}`, "parent": `{"op":"add","path":"/spec/absent/x","value":1}`, "move": `{"op":"move","from":"/spec/absent","path":"/spec/x"}`,
		} {
			got := s.refuses("PATCH", cratePath+"/a", `[{"op":"replace","path":"/spec/size","value":9},`+last+`]`, jsonPatchType, 422, "Invalid", "")
			require.NotContains(t, got.text("message"), "goroutine", what)
		}
	})
}

func TestPATCH_08_MergePatchesFollowTheRFC(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		// The examples of RFC 7386, appendix A, below spec. Values other than objects are nested
		// one level deeper.
		for i, c := range [][3]string{
			{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
			{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
			{`{"a":"b"}`, `{"a":null}`, `{}`},
			{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
			{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
			{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
			{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
			{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
			{`{"v":["a","b"]}`, `{"v":["c","d"]}`, `{"v":["c","d"]}`},
			{`{"v":{"a":"b"}}`, `{"v":["c"]}`, `{"v":["c"]}`},
			{`{"v":{"a":"foo"}}`, `{"v":null}`, `{}`},
			{`{"v":{"a":"foo"}}`, `{"v":"bar"}`, `{"v":"bar"}`},
			{`{"v":[1,2]}`, `{"v":{"a":"b","c":null}}`, `{"v":{"a":"b"}}`},
			{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		} {
			name := fmt.Sprint("b", i)
			s.create(barePath, `{"metadata":{"name":"`+name+`"},"spec":`+c[0]+`}`)
			require.JSONEq(t, c[2], spec(s.change(barePath+"/"+name, mergeType, `{"spec":`+c[1]+`}`).is(200)), "%v", c)
		}
	}, kindwright.Serve(bare{bareSchema}))
}

func TestPATCH_09_PATCH_17_StrategicMergeOfATypedResource(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.create(cratePath, `{"metadata":{"name":"a","finalizers":["x.example.com/f"],"labels":{"a":"1","b":"2"}},"spec":{"parts":[{"name":"a","count":2},{"name":"b"}],"ports":[{"port":53,"protocol":"TCP","name":"t"}],"tags":["x","y"],"lines":["1"],"notes":{"k":"v"}}}`)
		got := s.change(cratePath+"/a", strategicType, `{"metadata":{"finalizers":["y.example.com/f"],"labels":{"a":null}},"spec":{"parts":[{"name":"b","count":9},{"$patch":"delete","name":"a"}],`+
			`"ports":[{"port":53,"protocol":"UDP"}],"$deleteFromPrimitiveList/tags":["x"],"lines":["2"],"notes":{"$patch":"replace","n":"w"}}}`).is(200)
		require.JSONEq(t, `{"color":"blue","parts":[{"name":"b","count":9}],"ports":[{"port":53,"protocol":"UDP"},{"port":53,"protocol":"TCP","name":"t"}],"tags":["y"],"lines":["2"],"notes":{"n":"w"}}`, spec(got))
		require.Equal(t, []any{"y.example.com/f", "x.example.com/f"}, got.at("metadata", "finalizers"))
		require.Equal(t, map[string]any{"b": "2"}, got.at("metadata", "labels"))
		got = s.change(cratePath+"/a", strategicType, `{"spec":{"$setElementOrder/parts":[{"name":"c"},{"name":"b"}],"parts":[{"name":"c"}],"ports":[{"$patch":"replace"},{"port":1}],"$retainKeys":["parts","ports"]}}`).is(200)
		require.JSONEq(t, `{"color":"blue","parts":[{"name":"c","count":1},{"name":"b","count":9}],"ports":[{"port":1,"protocol":"TCP"}]}`, spec(got), "the default is restored")
		for _, bad := range []string{`{"spec":{"notes":{"$patch":"burn"}}}`, `{"spec":{"$retainKeys":["a"],"text":"b"}}`, `{"spec":{"$setElementOrder/tags":["a"],"tags":["b"]}}`, `{"$burn":1}`} {
			s.refuses("PATCH", cratePath+"/a", bad, strategicType, 400, "BadRequest", "$")
		}
		s.refuses("PATCH", cratePath+"/a", `{"spec":{"parts":[{"count":1}]}}`, strategicType, 422, "Invalid", "name")
	})
}

func TestPATCH_10_PATCH_12_OtherTypesAreRejected(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.create(barePath, `{"metadata":{"name":"a"}}`)
		s.crate("a", "")
		s.untouched(barePath, func() {
			got := s.change(barePath+"/a", strategicType, `{"spec":{"a":1}}`).refused(415, "UnsupportedMediaType", mergeType)
			require.Contains(t, got.text("message"), jsonPatchType)
			require.Contains(t, got.text("message"), applyType)
			require.NotContains(t, got.text("message"), strategicType)
		})
		for _, contentType := range []string{jsonType, "", "text/plain", "application/yaml", "application/apply-patch+cbor", "application/merge-patch", "application/merge-patch+json,application/json"} {
			for _, name := range []string{"a", "absent"} {
				got := s.refuses("PATCH", cratePath+"/"+name, `{"spec":{"size":1}}`, contentType, 415, "UnsupportedMediaType", strategicType)
				require.Contains(t, got.text("message"), mergeType)
			}
		}
	}, kindwright.Serve(bare{bareSchema}))
}

func TestPATCH_13_AnAbsentObject(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		for contentType, body := range map[string]string{mergeType: crateJSON("a", ""), strategicType: crateJSON("a", ""), jsonPatchType: `[{"op":"add","path":"/spec","value":{}}]`} {
			got := s.refuses("PATCH", cratePath+"/a?fieldManager=m", body, contentType, 404, "NotFound", `crates.shop.example.com "a" not found`)
			require.Equal(t, map[string]any{"name": "a", "group": group, "kind": "crates"}, got.at("details"))
		}
		s.do("PATCH", cratePath, `{}`, "Content-Type", mergeType).refused(405, "MethodNotAllowed", "")
	})
}

func TestPATCH_14_B10_B12_LimitsOfPatches(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.crate("a", `"lines":["x"],"text":"`+strings.Repeat("x", 200<<10)+`"`)
		many := func(op string, n int) string { return "[" + strings.TrimSuffix(strings.Repeat(op+",", n), ",") + "]" }
		test := `{"op":"test","path":"/kind","value":"Crate"}`
		s.change(cratePath+"/a", jsonPatchType, many(test, 10000)).is(200)
		s.refuses("PATCH", cratePath+"/a", many(test, 10001), jsonPatchType, 413, "RequestEntityTooLarge", "10000")
		s.refuses("PATCH", cratePath+"/a", many(`{"op":"copy","from":"/spec/text","path":"/spec/lines/-"}`, 16), jsonPatchType, 413, "RequestEntityTooLarge", "")
		s.refuses("PATCH", cratePath+"/a", many(`{"op":"copy","from":"/spec","path":"/spec/a"}`, 40), jsonPatchType, 413, "RequestEntityTooLarge", "")
		var nulls strings.Builder
		for i := range 200_000 {
			fmt.Fprintf(&nulls, `"a%d":null,`, i)
		}
		got := s.change(cratePath+"/a", mergeType, `{"spec":{`+nulls.String()+`"size":5}}`)
		require.Contains(t, []int{200, 413, 422}, got.code)
		require.Less(t, len(got.header.Get("Warning")), 8<<10)
	})
}

func TestPATCH_15_B11_BadPatches(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.crate("a", `"lines":["x"],"size":3`)
		for _, body := range []string{
			``, `x`, `{}`, `null`, `"x"`, `[1]`, `[null]`, `[{"op":"burn","path":"/spec"}]`, `[{"path":"/spec"}]`, `[{"op":"add","path":"/spec/size"}]`, `[{"op":"add","value":1}]`,
			`[{"op":"add","path":"spec","value":1}]`, `[{"op":"move","path":"/spec/x"}]`, `[{"op":"add","path":"/a~2","value":1}]`, `[{"op":"add","path":"~","value":1}]`, `[{"op":7,"path":"/x"}]`, `[]x`,
		} {
			got := s.change(cratePath+"/a", jsonPatchType, body)
			require.Contains(t, []int{400, 422}, got.code, "%s: %s", body, got)
			s.refuses("PATCH", cratePath+"/a", body, jsonPatchType, got.code, map[int]string{400: "BadRequest", 422: "Invalid"}[got.code], "")
		}
		s.refuses("PATCH", cratePath+"/a", `{"metadata":5}`, mergeType, 422, "Invalid", "patch")
		for _, body := range []string{``, `x`, `[]`, `null`, `"x"`, `{"a":1`, `{}{}`, `{"a":1e400}`, `{"spec":{"weight":9223372036854775808}}`} {
			for _, contentType := range []string{mergeType, strategicType} {
				s.refuses("PATCH", cratePath+"/a", body, contentType, 400, "BadRequest", "")
			}
		}
		for _, path := range []string{"/spec/lines/-1", "/spec/lines/99999999999", "/spec/lines/01", "/spec/lines/1e0", "/spec/lines/x", "/-", "//", "/spec/lines/-/x", "/spec/size/x"} {
			body := fmt.Sprintf(`[{"op":"replace","path":%q,"value":"x"}]`, path)
			got := s.change(cratePath+"/a", jsonPatchType, body)
			require.Contains(t, []int{400, 422}, got.code, "%s: %s", path, got)
		}
		for _, body := range []string{`[{"op":"move","from":"/spec","path":"/spec/x"}]`, `[{"op":"remove","path":""}]`, `[{"op":"replace","path":"","value":7}]`, `[{"op":"replace","path":"","value":[]}]`} {
			got := s.change(cratePath+"/a", jsonPatchType, body)
			require.Contains(t, []int{400, 422}, got.code, "%s: %s", body, got)
		}
		for contentType, bodies := range map[string][]string{
			mergeType:     {`{"spec":7}`, `{"spec":{"size":"x"}}`, `{"spec":{"lines":{}}}`, `{"spec":[]}`, `{"metadata":{"labels":{"a":1}}}`},
			strategicType: {`{"spec":7}`, `{"spec":{"size":"x"}}`, `{"spec":[]}`},
			jsonPatchType: {`[{"op":"replace","path":"/spec","value":7}]`, `[{"op":"add","path":"/spec/size","value":{}}]`},
		} {
			for _, body := range bodies {
				got := s.refuses("PATCH", cratePath+"/a", body, contentType, 422, "Invalid", "")
				require.NotEmpty(t, got.at("details", "causes"), "%s", got)
			}
		}
		for _, rename := range []string{`"name":"b"`, `"name":null`, `"name":""`, `"namespace":"other"`} {
			for _, contentType := range []string{mergeType, strategicType} {
				got := s.change(cratePath+"/a", contentType, `{"metadata":{`+rename+`}}`)
				require.Equal(t, 400, got.code, "%s %s: %s", contentType, rename, got)
			}
		}
		require.InDelta(t, 3, s.get(cratePath+"/a").at("spec", "size"), 0)
		require.Len(t, s.get(cratePath).items(), 1)
	})
}

func TestPATCH_16_WritersOfDifferentFieldsSeeNoConflict(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.crate("a", "")
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() {
				for n := range 5 {
					key := fmt.Sprintf("k%d-%d", i, n)
					body, contentType := `{"spec":{"notes":{"`+key+`":"x"}}}`, []string{mergeType, strategicType, applyType}[i%3]
					if contentType == applyType {
						body = crateJSON("a", `"notes":{"`+key+`":"x"}`)
					}
					got := s.change(cratePath+"/a?fieldManager="+key, contentType, body)
					if got.code != 200 {
						t.Errorf("%s", got)
					}
				}
			})
		}
		wg.Wait()
		notes, _ := s.get(cratePath+"/a").at("spec", "notes").(map[string]any)
		require.Len(t, notes, 60)
	})
}

func TestB13_META_19_NoPatchReachesIdentity(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		before := s.crate("a", `"size":1`)
		fields := map[string]string{
			"/metadata/uid": `"11111111-2222-4333-8444-555555555555"`, "/metadata/name": `"b"`, "/metadata/namespace": `"kube-system"`, "/metadata/creationTimestamp": `"1999-01-01T00:00:00Z"`,
			"/metadata/deletionTimestamp": `"1999-01-01T00:00:00Z"`, "/metadata/deletionGracePeriodSeconds": `5`, "/metadata/generation": `99`, "/metadata/selfLink": `"/x"`, "/metadata/generateName": `"g-"`,
			"/kind": `"Widget"`, "/apiVersion": `"v1"`, "/metadata": `{}`,
		}
		for path, value := range fields {
			names := strings.Split(path[1:], "/")
			nested := value
			for i := len(names) - 1; i >= 0; i-- {
				nested = fmt.Sprintf(`{%q:%s}`, names[i], nested)
			}
			applied := `{"apiVersion":"shop.example.com/v1","kind":"Crate","metadata":{"name":"a"}}`
			if len(names) == 2 && names[1] != "name" {
				applied = fmt.Sprintf(`{"apiVersion":"shop.example.com/v1","kind":"Crate","metadata":{"name":"a",%q:%s}}`, names[1], value)
			}
			for contentType, body := range map[string]string{
				mergeType: nested, strategicType: nested, jsonPatchType: fmt.Sprintf(`[{"op":"add","path":%q,"value":%s}]`, path, value), applyType: applied,
			} {
				for _, sub := range []string{"", "/status"} {
					got := s.change(cratePath+"/a"+sub+"?fieldManager=m", contentType, body)
					require.Contains(t, []int{200, 400, 409, 422}, got.code, "%s %s: %s", contentType, path, got)
					now := s.get(cratePath + "/a").is(200)
					for _, field := range []string{"uid", "name", "namespace", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink", "generateName"} {
						require.Equal(t, before.at("metadata", field), now.at("metadata", field), "%s by %s", field, contentType)
					}
					require.Equal(t, "Crate", now.at("kind"))
					require.Equal(t, "shop.example.com/v1", now.at("apiVersion"))
				}
			}
		}
		require.Len(t, s.get(cratePath).items(), 1)
	})
}

// Nulls in any field, in any form of a kind, through any patch, do not harm later readers.
func TestB18_NullsEverywhere(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		fields := []string{
			"metadata", "metadata/labels", "metadata/annotations", "metadata/finalizers", "metadata/ownerReferences", "metadata/managedFields", "spec", "status", "spec/color", "spec/size", "spec/weight",
			"spec/load", "spec/text", "spec/parts", "spec/ports", "spec/tags", "spec/lines", "spec/notes", "spec/fixed", "spec/optional", "spec/null", "status/conditions", "spec/notes/k", "level", "depth",
		}
		s.create(gaugePath, `{"metadata":{"name":"a"},"level":"1"}`)
		for _, path := range []string{cratePath, gaugePath, gauge2Path} {
			for _, field := range fields {
				names := strings.Split(field, "/")
				nested := "null"
				for i := len(names) - 1; i >= 0; i-- {
					nested = fmt.Sprintf(`{%q:%s}`, names[i], nested)
				}
				if path == cratePath {
					s.do("PUT", cratePath+"/a", crateJSON("a", `"notes":{"k":"v"}`))
					s.do("POST", cratePath, crateJSON("a", `"notes":{"k":"v"}`))
				}
				for contentType, body := range map[string]string{
					mergeType: nested, strategicType: nested, jsonPatchType: fmt.Sprintf(`[{"op":"add","path":"/%s","value":null}]`, field),
				} {
					got := s.change(path+"/a", contentType, body)
					require.Contains(t, []int{200, 400, 422}, got.code, "%s %s: %s", contentType, field, got)
				}
				for _, form := range []string{path, gaugePath, gauge2Path} {
					s.get(form).is(200)
					s.get(form, "Accept", tableV1).is(200)
					s.get(form+"/a", "Accept", partialV1).is(200)
				}
			}
		}
		got := s.change(cratePath+"/a", mergeType, `{"spec":{"parts":[null],"tags":[null],"notes":{"a":null}}}`)
		require.Contains(t, []int{200, 422}, got.code)
		s.change(cratePath+"/a?fieldManager=m&force=true", applyType, crateJSON("a", `"parts":null,"tags":null,"notes":null,"color":null,"null":null`)).is(200)
	})
}
