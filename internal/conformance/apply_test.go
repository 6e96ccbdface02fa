package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

// apply applies the spec of the crate a.
func (s *server) apply(manager, spec string) *answer {
	s.t.Helper()
	return s.applyTo(cratePath+"/a", "", manager, crateJSON("a", spec))
}

func (s *server) force(manager, spec string) *answer {
	s.t.Helper()
	return s.applyTo(cratePath+"/a", "&force=true", manager, crateJSON("a", spec))
}

func (s *server) applyTo(path, query, manager, body string) *answer {
	s.t.Helper()
	return s.change(path+"?fieldManager="+manager+query, applyType, body)
}

// owners returns the entries of managedFields in their order, as "manager Operation[/subresource]:
// path path …". The paths are the leaves, and "." is an item or member itself.
func owners(a *answer) []string {
	a.t.Helper()
	a.is(a.code)
	out := []string{}
	entries, _ := a.at("metadata", "managedFields").([]any)
	for _, e := range entries {
		fields, _ := at(e, "fieldsV1").(map[string]any)
		who := fmt.Sprint(at(e, "manager"), " ", at(e, "operation"))
		if sub, ok := at(e, "subresource").(string); ok {
			who += "/" + sub
		}
		out = append(out, who+": "+strings.Join(places(fields), " "))
	}
	return out
}

func places(fields map[string]any) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		below, _ := fields[key].(map[string]any)
		inner := places(below)
		if len(inner) == 0 {
			out = append(out, strings.TrimPrefix(key, "f:"))
		}
		for _, p := range inner {
			out = append(out, strings.TrimPrefix(key, "f:")+"/"+p)
		}
	}
	return out
}

func conflicts(a *answer, fields ...string) *answer {
	a.t.Helper()
	a.refused(409, "Conflict", "Apply failed with ")
	var got []string
	causes, _ := a.at("details", "causes").([]any)
	for _, c := range causes {
		require.Equal(a.t, "FieldManagerConflict", at(c, "reason"))
		got = append(got, fmt.Sprint(at(c, "field")))
	}
	require.ElementsMatch(a.t, fields, got)
	return a
}

func TestSSA_01_SSA_12_NewObjectsAreTracked(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		got := s.do("POST", cratePath+"?fieldManager=ann", crateJSON("a", `"size":1`))
		require.Equal(t, []string{"ann Update: spec/. spec/color spec/size"}, owners(got), "including defaulted fields")
		got = s.do("PUT", cratePath+"/a?fieldManager=bob", crateJSON("a", `"size":2,"color":"blue","text":"x"`))
		require.Equal(t, []string{"ann Update: spec/. spec/color", "bob Update: spec/size spec/text"}, owners(got))
		n := 0
		for contentType, body := range map[string]string{
			mergeType: `{"spec":{"size":%d}}`, strategicType: `{"spec":{"size":%d}}`, jsonPatchType: `[{"op":"replace","path":"/spec/size","value":%d}]`,
		} {
			n++
			who := fmt.Sprint("cat", n)
			got = s.change(cratePath+"/a?fieldManager="+who, contentType, fmt.Sprintf(body, 10+n)).is(200)
			require.Contains(t, owners(got), who+" Update: spec/size")
			require.Len(t, owners(got), 3)
		}
		require.Equal(t, string(got.body), string(s.get(cratePath+"/a").body))
	})
}

func TestSSA_02_AnApplyNeedsAManager(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		for _, query := range []string{"", "?fieldManager=", "?force=true", "?dryRun=All"} {
			got := s.refuses("PATCH", cratePath+"/a"+query, crateJSON("a", ""), applyType, 422, "Invalid", "fieldManager: Required value: is required for apply patch")
			got.because("FieldValueRequired", "fieldManager", "is required for apply patch")
			require.Equal(t, "PatchOptions", got.at("details", "kind"))
		}
	})
}

func TestSSA_03_SSA_06_SSA_18_FieldsOfOthersConflict(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.apply("ann", `"size":1,"owner":"ann","notes":{"k":"a"},"parts":[{"name":"p","count":1}]`).is(201)
		var got *answer
		for _, query := range []string{"", "&dryRun=All", "&force=false"} {
			s.untouched(cratePath, func() {
				got = conflicts(s.applyTo(cratePath+"/a", query, "bob", crateJSON("a", `"size":2`)), ".spec.size")
			})
		}
		require.Equal(t, `Apply failed with 1 conflict: conflict with "ann": .spec.size`, got.text("message"))
		require.Equal(t, `conflict with "ann"`, at(got.at("details", "causes").([]any)[0], "message"))
		s.untouched(cratePath, func() {
			got = conflicts(s.apply("bob", `"size":2,"owner":"bob","notes":{"k":"b"},"parts":[{"name":"p","count":2}],"text":"free"`),
				".spec.size", ".spec.owner", ".spec.notes.k", `.spec.parts[name="p"].count`)
		})
		require.Contains(t, got.text("message"), `Apply failed with 4 conflicts: conflicts with "ann":`)
		// SSA-06: the owner of a shared value may not change it without a conflict.
		s.apply("bob", `"size":1`).is(200)
		got = conflicts(s.apply("bob", `"size":3`), ".spec.size")
		require.Contains(t, got.text("message"), `"ann"`)
		conflicts(s.apply("ann", `"size":3`), ".spec.size")
		s.apply("cat", `"size":1`).is(200)
		conflicts(s.apply("ann", `"size":3`), ".spec.size", ".spec.size") // one for each other owner
		// A conflict names updaters with their API version.
		s.do("PUT", cratePath+"/a?fieldManager=dan", crateJSON("a", `"size":9`)).is(200)
		got = conflicts(s.apply("ann", `"size":3`), ".spec.size")
		require.Regexp(t, `^conflict with "dan" using shop.example.com/v1( at \S+)?$`, at(got.at("details", "causes").([]any)[0], "message"))
		s.do("PUT", cratePath+"/a/status?fieldManager=eve", `{"metadata":{"name":"a"},"status":{"phase":"x"}}`).is(200)
		got = conflicts(s.applyTo(cratePath+"/a/status", "", "ann", `{"apiVersion":"shop.example.com/v1","kind":"Crate","metadata":{"name":"a"},"status":{"phase":"y"}}`), ".status.phase")
		require.Regexp(t, `^conflict with "eve" with subresource "status" using shop.example.com/v1( at \S+)?$`, at(got.at("details", "causes").([]any)[0], "message"))
	})
}

func TestSSA_04_ForceTakesOver(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.apply("ann", `"size":1,"owner":"ann"`).is(201)
		s.apply("cat", `"size":1`).is(200)
		got := s.force("bob", `"size":2`).is(200)
		require.InDelta(t, 2, got.at("spec", "size"), 0)
		require.Equal(t, []string{"ann Apply: spec/owner", "bob Apply: spec/size"}, owners(got), "a manager without fields has no entry")
		conflicts(s.apply("ann", `"size":1,"owner":"ann"`), ".spec.size")
		// A field that was taken over stays when its former owner applies without it.
		got = s.apply("ann", `"owner":"ann"`).is(200)
		require.InDelta(t, 2, got.at("spec", "size"), 0)
		s.untouched(cratePath, func() { s.applyTo(cratePath+"/a", "&force=true&dryRun=All", "ann", crateJSON("a", `"size":7`)).is(200) })
	})
}

func TestSSA_05_SSA_09_EqualValuesAreShared(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.apply("ann", `"size":1,"tags":["x"],"parts":[{"name":"p"}]`).is(201)
		got := s.apply("bob", `"size":1,"tags":["x","y"],"parts":[{"name":"p"},{"name":"q"}]`).is(200)
		require.Equal(t, []string{
			`ann Apply: spec/parts/k:{"name":"p"}/. spec/parts/k:{"name":"p"}/name spec/size spec/tags/v:"x"`,
			`bob Apply: spec/parts/k:{"name":"p"}/. spec/parts/k:{"name":"p"}/name spec/parts/k:{"name":"q"}/. spec/parts/k:{"name":"q"}/name spec/size spec/tags/v:"x" spec/tags/v:"y"`,
		}, owners(got))
		got = s.apply("ann", ``).is(200)
		require.InDelta(t, 1, got.at("spec", "size"), 0, "bob still owns it")
		require.Equal(t, []any{"x", "y"}, got.at("spec", "tags"))
		require.Len(t, got.at("spec", "parts"), 2)
		got = s.apply("bob", `"text":"x"`).is(200)
		require.JSONEq(t, `{"color":"blue","text":"x"}`, spec(got), "no owner is left")
	})
}

func TestSSA_07_ChangingAFieldMeansOwningIt(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		for contentType, body := range map[string]string{
			jsonType: crateJSON("a", `"size":5,"text":"ann"`), mergeType: `{"spec":{"size":5}}`, strategicType: `{"spec":{"size":5}}`, jsonPatchType: `[{"op":"replace","path":"/spec/size","value":5}]`,
		} {
			s.apply("ann", `"size":1,"text":"ann"`).is(201)
			method := "PATCH"
			if contentType == jsonType {
				method = "PUT"
			}
			got := s.do(method, cratePath+"/a?fieldManager=bob", body, "Content-Type", contentType).is(200)
			require.Equal(t, []string{"ann Apply: spec/text", "bob Update: spec/size"}, owners(got), "%s", contentType)
			conflicts(s.apply("ann", `"size":1,"text":"ann"`), ".spec.size")
			// Removing a field ends its ownership.
			got = s.change(cratePath+"/a?fieldManager=cat", mergeType, `{"spec":{"text":null}}`).is(200)
			for _, o := range owners(got) {
				require.NotContains(t, o, "text")
			}
			s.delete(cratePath + "/a")
		}
	})
}

func TestSSA_08_FieldsWithoutOwnersAreRemoved(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.apply("ann", `"color":"red","size":1,"notes":{"k":"v","l":"w"},"parts":[{"name":"p","count":5},{"name":"q"}],"tags":["x","y"],"lines":["1"],"fixed":{"f":"g"}`).is(201)
		got := s.apply("ann", `"size":1,"notes":{"l":"w"},"parts":[{"name":"p"}],"tags":["y"]`).is(200)
		require.JSONEq(t, `{"color":"blue","size":1,"notes":{"l":"w"},"parts":[{"name":"p","count":1}],"tags":["y"]}`, spec(got), "removed, or reset to the default")
		// An entry that another manager added to a removed map stays.
		s.change(cratePath+"/a?fieldManager=bob", mergeType, `{"spec":{"notes":{"b":"1"}}}`).is(200)
		got = s.apply("ann", ``).is(200)
		require.JSONEq(t, `{"color":"blue","notes":{"b":"1"}}`, spec(got))
		require.Equal(t, []string{"bob Update: spec/notes/b"}, owners(got)[len(owners(got))-1:])
	})
}

// Applying an empty configuration creates a complete object without owned fields.
func TestSSA_08_AnEmptyApply(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		body := `{"apiVersion":"shop.example.com/v1","kind":"Crate","metadata":{"name":"a"}}`
		got := s.applyTo(cratePath+"/a", "", "ann", body).is(201)
		require.Equal(t, "a", got.at("metadata", "name"))
		version := got.version()
		require.Equal(t, version, s.applyTo(cratePath+"/a", "", "ann", body).is(200).version())
	})
}

func TestSSA_10_VirtualTypesCannotBeApplied(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		for _, path := range []string{"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews/x", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"} {
			got := s.applyTo(path, "", "ann", `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","metadata":{"name":"x"}}`)
			require.Contains(t, []int{404, 405, 415}, got.code, "%s", got)
		}
	})
}

// An apply states a value, never a change to the current one, so its meaning does not depend on it.
func TestSSA_11_AnApplyDoesNotDependOnTheCurrentValue(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.crate("b", `"weight":7,"tags":["z","x"],"parts":[{"name":"q"}]`)
		for _, name := range []string{"a", "b"} {
			for range 3 {
				got := s.applyTo(cratePath+"/"+name, "&force=true", "ann", crateJSON(name, `"weight":1,"tags":["x"],"parts":[{"name":"p","count":2}]`))
				require.InDelta(t, 1, got.at("spec", "weight"), 0)
				require.Contains(t, got.at("spec", "tags"), "x")
				require.Contains(t, got.at("spec", "parts"), map[string]any{"name": "p", "count": 2.0})
			}
		}
		// The directives of other patch types are unknown fields.
		got := s.applyTo(cratePath+"/a", "&fieldValidation=Strict", "ann", crateJSON("a", `"$patch":"replace"`))
		require.Contains(t, []int{400, 422}, got.code)
		s.refuses("PATCH", cratePath+"/a?fieldManager=ann", `[{"op":"replace","path":"/spec/weight","value":1}]`, applyType, 400, "BadRequest", "")
	})
}

func TestSSA_13_SSA_14_SSA_15_READ_03_Reset(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		setup := func() { s.delete(cratePath + "/a"); s.apply("ann", `"size":1,"text":"ann"`).is(201) }
		s.apply("ann", "").is(201)
		reset := `{"op":"replace","path":"/metadata/managedFields","value":[{}]}`
		setup()
		got := s.change(cratePath+"/a?fieldManager=bob", jsonPatchType, "["+reset+"]").is(200)
		require.Empty(t, owners(got), "%v", owners(got))
		require.JSONEq(t, `{"color":"blue","size":1,"text":"ann"}`, spec(got), "nothing else has changed")
		for range 2 { // also where they have been reset before
			require.Empty(t, owners(s.change(cratePath+"/a", jsonPatchType, "["+reset+"]").is(200)))
		}
		s.apply("cat", `"size":2`).is(409) // owned by before-first-apply, SSA-26
		setup()
		got = s.change(cratePath+"/a?fieldManager=bob", jsonPatchType, "["+reset+`,{"op":"replace","path":"/spec/size","value":2}]`).is(200)
		require.Equal(t, []string{"bob Update: spec/size"}, owners(got))
		for contentType, body := range map[string]string{
			mergeType: `{"metadata":{"managedFields":[{}]}}`, strategicType: `{"metadata":{"managedFields":[{}]}}`, jsonType: `{"metadata":{"name":"a","managedFields":[{}]},"spec":{"size":1,"text":"ann"}}`,
		} {
			setup()
			method := map[bool]string{true: "PUT", false: "PATCH"}[contentType == jsonType]
			require.Empty(t, owners(s.do(method, cratePath+"/a?fieldManager=bob", body, "Content-Type", contentType).is(200)), "%s", contentType)
		}
		// An empty list, a missing field, and null do not reset.
		for contentType, bodies := range map[string][]string{
			jsonPatchType: {`[{"op":"replace","path":"/metadata/managedFields","value":[]}]`, `[{"op":"remove","path":"/metadata/managedFields"}]`},
			mergeType:     {`{"metadata":{"managedFields":[]}}`, `{"metadata":{"managedFields":null}}`},
			jsonType:      {`{"metadata":{"name":"a","managedFields":[]},"spec":{"size":1,"text":"ann"}}`, `{"metadata":{"name":"a","managedFields":null},"spec":{"size":1,"text":"ann"}}`, crateJSON("a", `"size":1,"text":"ann"`)},
		} {
			for _, body := range bodies {
				setup()
				before := s.get(cratePath + "/a")
				method := map[bool]string{true: "PUT", false: "PATCH"}[contentType == jsonType]
				got := s.do(method, cratePath+"/a?fieldManager=bob", body, "Content-Type", contentType).is(200)
				require.Equal(t, string(before.body), string(got.body), "%s", body)
			}
		}
	})
}

func TestREAD_03_TheOptionResetsByAnEmptyList(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		for contentType, body := range map[string]string{jsonPatchType: `[{"op":"replace","path":"/metadata/managedFields","value":[]}]`, mergeType: `{"metadata":{"managedFields":[]}}`} {
			s.apply("ann", `"size":1`).is(201)
			require.Empty(t, owners(s.change(cratePath+"/a?fieldManager=bob", contentType, body).is(200)))
			s.delete(cratePath + "/a")
		}
		s.apply("ann", `"size":1`).is(201)
		for _, body := range []string{crateJSON("a", `"size":1`), `{"metadata":{"name":"a","managedFields":null},"spec":{"size":1}}`} {
			require.Len(t, owners(s.do("PUT", cratePath+"/a", body).is(200)), 1, "none at all is no empty list")
		}
	}, kindwright.Kubernetes{ResetByEmptyList: true})
}

// A subresource with its own form leaves the entries unchanged and readable.
func TestSSA_16_OtherSubresources(t *testing.T) {
	kind := crates()
	kind.Subresources = []registry.Endpoint{
		registry.Subresource{Name: "notes", Verbs: []string{"get", "update", "patch"}, Merge: func(old, sent registry.Tree) registry.Tree {
			inner, _ := sent["spec"].(map[string]any)
			spec, _ := old["spec"].(map[string]any)
			spec, out := maps.Clone(spec), maps.Clone(old)
			spec["notes"], out["spec"] = inner["notes"], spec
			return out
		}},
		registry.Action[Crate, Crate, meta.Status]{Name: "ring", Run: func(context.Context, *registry.Call[Crate], *Crate) (*meta.Status, error) { return nil, nil }},
	}
	onEach(t, func(t *testing.T, s *server) {
		s.apply("ann", `"size":1,"notes":{"k":"v"}`).is(201)
		s.do("POST", cratePath+"/a/ring", "{}").is(201)
		require.Equal(t, []string{"ann Apply: spec/notes/k spec/size"}, owners(s.get(cratePath+"/a")))
		got := s.do("PATCH", cratePath+"/a/notes?fieldManager=bob", `{"metadata":{"managedFields":[{"manager":"x"}]},"spec":{"size":5,"notes":{"l":"w"}}}`, "Content-Type", mergeType).is(200)
		require.Equal(t, []string{"ann Apply: spec/notes/k spec/size", "bob Update/notes: spec/notes/l"}, owners(got), "managedFields in the body are ignored")
		require.InDelta(t, 1, got.at("spec", "size"), 0)
		conflicts(s.apply("cat", `"notes":{"l":"x"}`), ".spec.notes.l")
		s.apply("ann", `"size":1`).is(200)
	}, kindwright.Serve(kind))
}

func TestSSA_17_SSA_23_ManagersByParameterAndByUserAgent(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		n := 0
		for agent, manager := range map[string]string{
			"tool/1.0": "tool", "tool/1.0 (linux) x/y": "tool", "tool": "tool", "my tool/2": "my tool", "té/1": "té", "/1.0": "unknown",
			strings.Repeat("x", 200) + "/1": strings.Repeat("x", 128), strings.Repeat("x", 127) + "é/1": strings.Repeat("x", 127),
		} {
			n++
			got := s.do("POST", cratePath, crateJSON(fmt.Sprint("c", n), ""), "User-Agent", agent).is(201)
			require.Equal(t, manager, at(got.at("metadata", "managedFields").([]any)[0], "manager"), "%q", agent)
		}
		for method, contentType := range map[string]string{"POST": jsonType, "PUT": jsonType, "PATCH": mergeType} {
			path := cratePath + "/c1"
			if method == "POST" {
				path = cratePath
			}
			n++
			body := strings.Replace(crateJSON(map[bool]string{true: fmt.Sprint("c", n), false: "c1"}[method == "POST"], fmt.Sprintf(`"size":%d`, n)), "", "", 1)
			got := s.do(method, path+"?fieldManager=named", body, "User-Agent", "tool/1.0", "Content-Type", contentType)
			require.Contains(t, strings.Join(owners(got), "\n"), "named Update: ", "the parameter comes first")
		}
		for _, bad := range []string{strings.Repeat("x", 129), "a%0Ab", "%00", "%E2%80%A8", "%ff"} {
			for method, contentType := range map[string]string{"PUT": jsonType, "PATCH": applyType} {
				s.untouched(cratePath, func() {
					got := s.do(method, cratePath+"/c1?fieldManager="+bad, crateJSON("c1", `"size":99`), "Content-Type", contentType)
					require.Contains(t, []int{400, 422}, got.code, "%q: %s", bad, got)
				})
			}
		}
	})
}

func TestSSA_19_SSA_20_TheFormatOfEntries(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.applyTo(cratePath+"/a", "", "ann", `{"apiVersion":"shop.example.com/v1","kind":"Crate","metadata":{"name":"a","labels":{"l":"m"},"annotations":{"x/y":"z"},"finalizers":["f.example.com/f"],`+
			`"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"u"}]},"spec":{"size":1,"parts":[{"name":"p","count":2,"tags":["t"]}],"ports":[{"port":53,"protocol":"UDP"}],"tags":["x"],"lines":["1"],"notes":{"k":"v"},"fixed":{"f":"g"}}}`).is(201)
		time.Sleep(5 * time.Second)
		got := s.do("PUT", cratePath+"/a/status?fieldManager=bob", `{"metadata":{"name":"a"},"status":{"phase":"x","conditions":[{"type":"Ready","status":"True"}]}}`).is(200)
		entries, err := json.Marshal(got.at("metadata", "managedFields"))
		require.NoError(t, err)
		require.JSONEq(t, `[
			{"manager":"ann","operation":"Apply","apiVersion":"shop.example.com/v1","time":"2000-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{
				"f:metadata":{"f:labels":{"f:l":{}},"f:annotations":{"f:x/y":{}},"f:finalizers":{"v:\"f.example.com/f\"":{}},"f:ownerReferences":{"k:{\"uid\":\"u\"}":{}}},
				"f:spec":{"f:size":{},"f:parts":{"k:{\"name\":\"p\"}":{".":{},"f:name":{},"f:count":{},"f:tags":{"v:\"t\"":{}}}},
					"f:ports":{"k:{\"port\":53,\"protocol\":\"UDP\"}":{".":{},"f:port":{},"f:protocol":{}}},"f:tags":{"v:\"x\"":{}},"f:lines":{},"f:notes":{"f:k":{}},"f:fixed":{}}}},
			{"manager":"bob","operation":"Update","apiVersion":"shop.example.com/v1","time":"2000-01-01T00:00:05Z","subresource":"status","fieldsType":"FieldsV1","fieldsV1":{
				"f:status":{".":{},"f:phase":{},"f:conditions":{".":{},"k:{\"type\":\"Ready\"}":{".":{},"f:type":{},"f:status":{}}}}}}]`, string(entries))
	})
}

func TestSSA_21_WhenManagersHaveSeparateEntries(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.apply("m", `"size":1`).is(201)
		s.change(cratePath+"/a?fieldManager=m", mergeType, `{"spec":{"text":"x"}}`).is(200)
		status := func(phase, condition string) string {
			return `{"apiVersion":"shop.example.com/v1","kind":"Crate","metadata":{"name":"a"},"status":{` + phase + condition + `}}`
		}
		s.applyTo(cratePath+"/a/status", "", "m", status(`"phase":"p"`, "")).is(200)
		got := s.change(cratePath+"/a/status?fieldManager=m", mergeType, status("", `"conditions":[{"type":"C"}]`)).is(200)
		require.ElementsMatch(t, []string{
			"m Apply: spec/size", "m Update: spec/text", "m Apply/status: status/phase",
			`m Update/status: status/conditions/. status/conditions/k:{"type":"C"}/. status/conditions/k:{"type":"C"}/type`,
		}, owners(got))
		// Updates through another version have their own entry. Applies share one, with the version
		// used last.
		s.do("POST", gaugePath+"?fieldManager=m", `{"metadata":{"name":"g","labels":{"a":"1"}},"level":"1"}`).is(201)
		got = s.change(gauge2Path+"/g?fieldManager=m", mergeType, `{"metadata":{"labels":{"b":"1"}},"depth":"2"}`).is(200)
		versions := func(a *answer) (out []string) {
			for _, e := range a.at("metadata", "managedFields").([]any) {
				out = append(out, fmt.Sprint(at(e, "operation"), at(e, "apiVersion")))
			}
			return out
		}
		require.ElementsMatch(t, []string{"Updateshop.example.com/v1", "Updateshop.example.com/v2"}, versions(got))
		apply := func(version, body string) *answer {
			return s.change(strings.Replace(gaugePath, "/v1/", "/"+version+"/", 1)+"/h?fieldManager=m", applyType, `{"apiVersion":"shop.example.com/`+version+`","kind":"Gauge","metadata":{"name":"h"},`+body+`}`)
		}
		require.Equal(t, []string{"Applyshop.example.com/v1"}, versions(apply("v1", `"level":"1"`).is(201)))
		got = apply("v2", `"depth":"2"`).is(200)
		require.Equal(t, []string{"Applyshop.example.com/v2"}, versions(got), "a manager does not conflict with itself")
		require.Equal(t, []string{"m Apply: depth"}, owners(got))
		require.Equal(t, "2", s.get(gaugePath+"/h").at("level"))
	}, kindwright.Serve(crates()))
}

func TestSSA_22_RULE_21_TheSchemaDecidesHowListsAndMapsMerge(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.apply("ann", `"parts":[{"name":"p","count":1}],"ports":[{"port":53}],"tags":["x"],"notes":{"a":"1"},"lines":["1"],"fixed":{"a":"1"}`).is(201)
		got := s.apply("bob", `"parts":[{"name":"q"}],"ports":[{"port":53,"protocol":"UDP"}],"tags":["y"],"notes":{"b":"2"}`).is(200)
		require.JSONEq(t, `{"color":"blue","parts":[{"name":"p","count":1},{"name":"q","count":1}],"ports":[{"port":53,"protocol":"TCP"},{"port":53,"protocol":"UDP"}],"tags":["x","y"],`+
			`"notes":{"a":"1","b":"2"},"lines":["1"],"fixed":{"a":"1"}}`, spec(got))
		conflicts(s.apply("bob", `"lines":["1","2"]`), ".spec.lines")
		conflicts(s.apply("bob", `"fixed":{"b":"2"}`), ".spec.fixed")
		conflicts(s.apply("bob", `"ports":[{"port":53,"protocol":"UDP"},{"port":53,"name":"mine"}],"parts":[{"name":"p","count":7}]`), `.spec.parts[name="p"].count`)
		got = s.apply("bob", `"ports":[{"port":53,"name":"mine"}]`).is(200)
		require.JSONEq(t, `[{"port":53,"protocol":"TCP","name":"mine"}]`, string(must(json.Marshal(got.at("spec", "ports")))), "a missing key has its default")
		// Items without a key, and duplicate items.
		for _, bad := range []string{`"parts":[{"count":1}]`, `"parts":[{"name":"z"},{"name":"z"}]`, `"tags":["z","z"]`, `"ports":[{"port":1},{"port":1,"protocol":"TCP"}]`} {
			got := s.refuses("PATCH", cratePath+"/a?fieldManager=bob&force=true", crateJSON("a", bad), applyType, 422, "Invalid", "")
			require.Contains(t, fmt.Sprint(at(got.at("details", "causes").([]any)[0], "field")), "spec.", "%s", got)
		}
		// Without a schema maps are merged and lists are replaced.
		bares := func(manager, spec string) *answer {
			return s.applyTo(barePath+"/a", "", manager, `{"apiVersion":"shop.example.com/v1","kind":"Bare","metadata":{"name":"a"},"spec":{`+spec+`}}`)
		}
		bares("ann", `"free":{"m":{"a":1},"l":[1]},"keyed":[{"name":"x"}]`).is(201)
		got = bares("bob", `"free":{"m":{"b":2}},"keyed":[{"name":"y"}]`).is(200)
		require.JSONEq(t, `{"free":{"m":{"a":1,"b":2},"l":[1]},"keyed":[{"name":"x"},{"name":"y"}]}`, spec(got))
		conflicts(bares("bob", `"free":{"l":[1,2]}`), ".spec.free.l")
	}, kindwright.Serve(crates(), bare{bareSchema}))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestSSA_24_FieldsThatAreNeverOwned(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.applyTo(cratePath+"/a", "", "ann", `{"apiVersion":"shop.example.com/v1","kind":"Crate","metadata":{"name":"a","namespace":"default","labels":{"x":"y"},"generateName":"g-","generation":7,"creationTimestamp":"1999-01-01T00:00:00Z"},"spec":{"size":1}}`).is(201)
		got := s.get(cratePath + "/a")
		require.NotRegexp(t, `apiVersion|kind|namespace|metadata/\.|metadata/name|uid|resourceVersion|generation$|creationTimestamp|selfLink|managedFields`, strings.Join(owners(got), "\n"))
		got = s.do("PUT", cratePath+"/a?fieldManager=bob", string(got.body)).is(200)
		require.Len(t, owners(got), 1)
		got = s.do("PUT", cratePath+"/a?fieldManager=bob", strings.Replace(string(got.body), `"size":1`, `"size":2`, 1)).is(200)
		require.Equal(t, "bob Update: spec/size", owners(got)[1])
		s.delete(cratePath + "/a")
		got = s.do("POST", cratePath+"?fieldManager=bob", crateJSON("a", "")).is(201)
		require.Equal(t, []string{"bob Update: spec/. spec/color"}, owners(got))
	})
}

func TestSSA_25_OldUpdatersAreMerged(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.apply("applier", `"text":"x"`).is(201)
		var got *answer
		for i := range 12 {
			time.Sleep(time.Second)
			got = s.change(fmt.Sprintf("%s/a?fieldManager=m%02d", cratePath, i), mergeType, fmt.Sprintf(`{"spec":{"notes":{"k%02d":"v"}}}`, i)).is(200)
		}
		all := owners(got)
		require.Len(t, all, 11, "%v", all) // ten updaters and the applier
		require.Contains(t, strings.Join(all, "\n"), "ancient-changes Update: spec/notes/. spec/notes/k00 spec/notes/k01 spec/notes/k02")
		require.Contains(t, strings.Join(all, "\n"), "m11 Update: spec/notes/k11")
		require.Contains(t, all[0], "applier Apply")
		conflicts(s.apply("cat", `"notes":{"k00":"mine"}`), ".spec.notes.k00")
	})
}

func TestSSA_26_TheFirstApplyToAnUntrackedObject(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.crate("a", `"size":1,"text":"x"`)
		s.change(cratePath+"/a", jsonPatchType, `[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]`).is(200)
		got := s.change(cratePath+"/a?fieldManager=bob", mergeType, `{"spec":{"weight":5}}`).is(200)
		require.Empty(t, owners(got), "an untracked object stays untracked")
		got = s.apply("ann", `"size":1`).is(200)
		require.Equal(t, []string{"ann Apply: spec/size", "before-first-apply Update: spec/. spec/color spec/size spec/text spec/weight"}, owners(got))
		conflicts(s.apply("ann", `"size":2`), ".spec.size")
		got = s.apply("ann", ``).is(200)
		require.InDelta(t, 1, got.at("spec", "size"), 0, "the field was there before")
	})
}

func TestSSA_27_InvalidApplies(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.crate("there", "")
		for _, name := range []string{"a", "there"} {
			apply := func(code int, reason, text, format string) {
				s.refuses("PATCH", cratePath+"/"+name+"?fieldManager=m", fmt.Sprintf(format, name), applyType, code, reason, text)
			}
			apply(400, "BadRequest", "Crate", `{"apiVersion":"shop.example.com/v1","metadata":{"name":%q}}`)
			apply(400, "BadRequest", "shop.example.com/v1", `{"kind":"Crate","metadata":{"name":%q}}`)
			apply(400, "BadRequest", "Widget", `{"apiVersion":"shop.example.com/v1","kind":"Widget","metadata":{"name":%q}}`)
			apply(400, "BadRequest", "v9", `{"apiVersion":"shop.example.com/v9","kind":"Crate","metadata":{"name":%q}}`)
			apply(400, "BadRequest", "managedFields must be nil", `{"apiVersion":"shop.example.com/v1","kind":"Crate","metadata":{"name":%q,"managedFields":[{}]}}`)
			apply(400, "BadRequest", "managedFields must be nil", `{"apiVersion":"shop.example.com/v1","kind":"Crate","metadata":{"name":%q,"managedFields":[]}}`)
			foreign := `{"apiVersion":"shop.example.com/v1","kind":"Crate","metadata":{"name":%q,"uid":"11111111-2222-4333-8444-555555555555"}}`
			if name == "there" {
				apply(422, "Invalid", "metadata.uid: Invalid value", foreign)
			} else {
				apply(409, "Conflict", "11111111-2222", foreign)
			}
			apply(400, "BadRequest", "does not match", `{"apiVersion":"shop.example.com/v1","kind":"Crate","metadata":{"name":"x%s"}}`)
			apply(400, "BadRequest", "namespace", `{"apiVersion":"shop.example.com/v1","kind":"Crate","metadata":{"name":%q,"namespace":"other"}}`)
		}
		s.refuses("PATCH", cratePath+"/a?fieldManager=m", `{"apiVersion":"shop.example.com/v1","kind":"Crate","metadata":{"name":"a","resourceVersion":"5"}}`, applyType, 409, "Conflict", "resourceVersion")
		unknown := `{"apiVersion":"shop.example.com/v1","kind":"Crate","metadata":{"name":"a"},"spec":{"nothing":1}}`
		s.refuses("PATCH", cratePath+"/a?fieldManager=m&fieldValidation=Strict", unknown, applyType, 400, "BadRequest", "strict decoding error: unknown field")
		s.refuses("PATCH", cratePath+"/a?fieldManager=m&fieldValidation=Strict", unknown, applyType, 400, "BadRequest", ".spec.nothing: field not declared in schema")
		twice := "apiVersion: shop.example.com/v1\nkind: Crate\nmetadata: {name: a}\nspec:\n  size: 1\n  size: 2\n"
		s.refuses("PATCH", cratePath+"/a?fieldManager=m&fieldValidation=Strict", twice, applyType, 400, "BadRequest",
			"error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  line 6: key \"size\" already set in map")
		any := s.do("PATCH", cratePath+"/any?fieldManager=m", `{"apiVersion":"shop.example.com/v1","kind":"Crate","metadata":{"name":"any","resourceVersion":"0"}}`, "Content-Type", applyType)
		any.is(201)
	})
}

func TestSSA_28_RULE_8_AnApplyWithoutEffectWritesNothing(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		body := `"size":1,"load":0.5,"parts":[{"name":"p"}],"tags":["x"],"notes":{"k":"v"},"lines":[],"fixed":{},"null":null`
		s.apply("ann", body).is(201)
		s.apply("bob", `"size":1`).is(200)
		got := s.get(cratePath + "/a")
		w := s.watch(cratePath + "?watch=1&resourceVersion=" + got.version())
		list := s.get(cratePath).version()
		time.Sleep(3 * time.Second)
		for range 3 {
			require.Equal(t, string(got.body), string(s.apply("ann", body).is(200).body))
			require.Equal(t, string(got.body), string(s.force("ann", body).is(200).body))
			require.Equal(t, string(got.body), string(s.apply("bob", `"size":1.0`).is(200).body))
		}
		yaml := "apiVersion: shop.example.com/v1\nkind: Crate\nmetadata: {name: a, labels: {}}\nspec:\n  size: 1\n  load: 0.5\n  parts: [{name: p}]\n  tags: [x]\n  notes: {k: v}\n  lines: []\n  fixed: {}\n  \"null\": null\n"
		require.Equal(t, string(got.body), string(s.applyTo(cratePath+"/a", "", "ann", yaml).is(200).body))
		require.Equal(t, list, s.get(cratePath).version())
		w.quiet(time.Second)
		again := s.apply("bob", `"size":1,"text":"x"`).is(200)
		require.NotEqual(t, got.version(), again.version())
	})
}

func TestSSA_29_B15_InvalidEntriesFromClients(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.apply("ann", `"size":1`).is(201)
		before := s.get(cratePath + "/a")
		entry := func(fields string) string {
			return `[{"manager":"eve","operation":"Update","apiVersion":"shop.example.com/v1","fieldsType":"FieldsV1","fieldsV1":` + fields + `}]`
		}
		for _, bad := range []string{
			entry(`{"f:spec":7}`), entry(`{"k:{":{}}`), entry(`{"v:{{":{}}`), entry(`{"i:x":{}}`), entry(`{"":{}}`),
			`[{"manager":"eve","operation":"Steal","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{}}]`, `[{"manager":"eve","operation":"Apply","apiVersion":"shop.example.com/v1","fieldsType":"FieldsV9","fieldsV1":{}}]`,
			`[{},{}]`, `[{"manager":"` + strings.Repeat("m", 1<<20) + `"}]`,
		} {
			got := s.do("PUT", cratePath+"/a?fieldManager=bob", `{"metadata":{"name":"a","managedFields":`+bad+`},"spec":{"size":1}}`).is(200)
			require.Equal(t, string(before.body), string(got.body), "%.200s", bad)
		}
		for _, wrong := range []string{`7`, `"x"`, `{}`, `[7]`, `[{"manager":7}]`, `[{"fieldsV1":"x"}]`, `[{"time":"yesterday"}]`} {
			got := s.do("PUT", cratePath+"/a?fieldManager=bob", `{"metadata":{"name":"a","managedFields":`+wrong+`},"spec":{"size":1}}`)
			require.Contains(t, []int{200, 400, 422}, got.code, "%s", got)
			require.Equal(t, string(before.body), string(s.get(cratePath+"/a").body), "%s", wrong)
		}
		// A huge number of entries is either merged or rejected. Afterwards few are left, and the
		// object can be used.
		var many []string
		for i := range 10_000 {
			many = append(many, fmt.Sprintf(`{"manager":"m%d","operation":"Update","apiVersion":"shop.example.com/v1","time":"2000-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:size":{}}}}`, i))
		}
		got := s.do("PUT", cratePath+"/a?fieldManager=bob", `{"metadata":{"name":"a","managedFields":[`+strings.Join(many, ",")+`]},"spec":{"size":2}}`)
		require.Contains(t, []int{200, 413, 422}, got.code)
		require.LessOrEqual(t, len(owners(s.get(cratePath+"/a"))), 12)
		s.force("ann", `"size":3`).is(200)
	})
}

func TestSSA_29_EntriesThatAdmissionBreaks(t *testing.T) {
	plugin := admission.Plugin{Name: "breaker", Mutator: admission.MutatorFunc(func(_ context.Context, r *admission.Request) (map[string]any, error) {
		return admission.Patched(r, admission.Set([]any{map[string]any{"manager": "x", "operation": "Steal"}}, "metadata", "managedFields"))
	})}
	onCrates(t, func(t *testing.T, s *server) {
		got := s.apply("ann", `"size":1`).is(201)
		require.Contains(t, got.header.Get("Warning"), "managedFields was in an invalid state after admission")
		require.Equal(t, []string{"ann Apply: spec/size"}, owners(got))
	}, kindwright.Admit(plugin))
}

func TestSSA_30_ForceIsOnlyForApplies(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.crate("a", `"size":1`)
		for contentType, body := range map[string]string{mergeType: `{"spec":{"size":2}}`, strategicType: `{"spec":{"size":2}}`, jsonPatchType: `[{"op":"remove","path":"/spec/size"}]`} {
			for _, value := range []string{"true", "1", "false", "0"} {
				s.refuses("PATCH", cratePath+"/a?force="+value, body, contentType, 422, "Invalid", "force: Forbidden: may not be specified for non-apply patch").
					because("FieldValueForbidden", "force", "")
			}
		}
	})
}

func TestSSA_31_RULE_22_StatusIsNotOwnedThroughTheMainPath(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		got := s.applyTo(cratePath+"/a", "", "ann", `{"apiVersion":"shop.example.com/v1","kind":"Crate","metadata":{"name":"a"},"spec":{"size":1},"status":{"phase":"ann"}}`).is(201)
		require.Equal(t, []string{"ann Apply: spec/size"}, owners(got))
		require.Nil(t, got.at("status", "phase"))
		got = s.applyTo(cratePath+"/a/status", "", "bob", `{"apiVersion":"shop.example.com/v1","kind":"Crate","metadata":{"name":"a","labels":{"l":"m"}},"spec":{"size":9},"status":{"phase":"bob"}}`).is(200)
		require.Equal(t, []string{"ann Apply: spec/size", "bob Apply/status: status/phase"}, owners(got))
		require.InDelta(t, 1, got.at("spec", "size"), 0)
		require.Nil(t, got.at("metadata", "labels"))
		// Neither a conflict nor a change of the status.
		got = s.applyTo(cratePath+"/a", "", "ann", `{"apiVersion":"shop.example.com/v1","kind":"Crate","metadata":{"name":"a"},"spec":{"size":1},"status":{"phase":"ann"}}`).is(200)
		require.Equal(t, "bob", got.at("status", "phase"))
		got = s.do("PUT", cratePath+"/a?fieldManager=cat", `{"metadata":{"name":"a"},"spec":{"size":1,"text":"c"},"status":{"phase":"cat"}}`).is(200)
		require.Equal(t, []string{"ann Apply: spec/size", "bob Apply/status: status/phase", "cat Update: spec/text"}, owners(got))
	})
}

// No field is lost when many managers apply at the same time.
func TestSSA_ManyAppliersAtOnce(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				for n := range 4 {
					who := fmt.Sprint("m", i)
					got := s.apply(who, fmt.Sprintf(`"notes":{"k%d":"%d"},"parts":[{"name":"p%d","count":%d}],"tags":["t%d"]`, i, n, i, n+1, i))
					if got.code/100 != 2 {
						t.Errorf("%s", got)
					}
				}
			})
		}
		wg.Wait()
		got := s.get(cratePath + "/a")
		require.Len(t, got.at("spec", "notes"), 10)
		require.Len(t, got.at("spec", "parts"), 10)
		require.Len(t, got.at("spec", "tags"), 10)
		require.Len(t, owners(got), 10)
		for i := range 10 {
			require.Equal(t, "3", got.at("spec", "notes", fmt.Sprint("k", i)))
		}
	})
}

// kubectl users can migrate from client-side to server-side apply without conflicts with
// themselves.
func TestSSA_KubectlMovesFromClientToServerSide(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		last := crateJSON("a", `"size":1`)
		body := fmt.Sprintf(`{"apiVersion":"shop.example.com/v1","kind":"Crate","metadata":{"name":"a","annotations":{"kubectl.kubernetes.io/last-applied-configuration":%q}},"spec":{"size":1}}`, last)
		s.do("POST", cratePath+"?fieldManager=kubectl-client-side-apply", body).is(201)
		got := s.apply("kubectl", `"size":2`).is(200)
		require.InDelta(t, 2, got.at("spec", "size"), 0)
		require.Contains(t, got.text("metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"), `"size":2`, "kept up to date")
		conflicts(s.apply("somebody", `"size":3`), ".spec.size")
	})
}
