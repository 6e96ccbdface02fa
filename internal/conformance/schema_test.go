package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
)

// Every kind of write ignores, warns about, or rejects unknown and duplicate fields, as the client
// asks.
func TestQUERY_23_EveryWayOfWritingReportsFields(t *testing.T) {
	yamlBody := "apiVersion: shop.example.com/v1\nkind: Crate\nmetadata: {name: a}\nspec:\n  size: 1\n  size: 5\n  unknown: 1\n  parts: [{name: p, extra: 1}]\n"
	jsonBody := crateJSON("a", `"size":1,"size":5,"unknown":1,"parts":[{"name":"p","extra":1}]`)
	const both = `{"spec":{"size":1,"size":5,"unknown":1,"parts":[{"name":"p","extra":1}]}}`
	ways := map[string]struct {
		request
		there      bool
		code       int // the code with Strict
		duplicates bool
	}{
		"create":         {request{"POST", cratePath, jsonType, jsonBody}, false, 400, true},
		"create by YAML": {request{"POST", cratePath, "application/yaml", yamlBody}, false, 400, true},
		"update":         {request{"PUT", cratePath + "/a", jsonType, jsonBody}, true, 400, true},
		"merge":          {request{"PATCH", cratePath + "/a", mergeType, both}, true, 422, true},
		"strategic":      {request{"PATCH", cratePath + "/a", strategicType, both}, true, 422, true},
		"JSON patch":     {request{"PATCH", cratePath + "/a", jsonPatchType, `[{"op":"add","path":"/spec","value":{"size":5,"unknown":1,"parts":[{"name":"p","extra":1}]}}]`}, true, 422, false},
		"apply":          {request{"PATCH", cratePath + "/a?fieldManager=m&force=true", applyType, jsonBody}, true, 400, true},
		"apply-create":   {request{"PATCH", cratePath + "/a?fieldManager=m", applyType, jsonBody}, false, 400, true},
		"apply by YAML":  {request{"PATCH", cratePath + "/a?fieldManager=m", applyType, yamlBody}, false, 400, true},
	}
	for what, way := range ways {
		t.Run(what, func(t *testing.T) {
			onCrates(t, func(t *testing.T, s *server) {
				fields := []string{`unknown field "spec.unknown"`, `unknown field "spec.parts[0].extra"`}
				if way.duplicates {
					repeated := `duplicate field "spec.size"`
					switch {
					case way.body == yamlBody:
						repeated = `line 6: key "size" already set in map`
					case way.contentType == applyType:
						repeated = `line 1: key "size" already set in map`
					}
					fields = append(fields, repeated)
				}
				reset := func() {
					s.do("DELETE", cratePath+"/a", "")
					if way.there {
						s.crate("a", `"size":1`)
					}
				}
				reset()
				s.untouched(cratePath, func() {
					got := s.ask1(way.with("fieldValidation=Strict"))
					require.Contains(t, []int{400, 422}, got.code, "%s", got)
					for _, f := range fields {
						require.Contains(t, got.text("message"), f)
					}
					require.Equal(t, way.code, got.code, "%s", got)
				})
				for _, mode := range []string{"Warn", "", "Ignore"} {
					reset()
					got := s.ask1(way.with("fieldValidation=" + mode))
					require.Less(t, got.code, 300, "%s", got)
					require.InDelta(t, 5, got.at("spec", "size"), 0, "the last value counts")
					require.NotContains(t, string(got.body), "unknown")
					require.NotContains(t, string(got.body), "extra")
					warnings := got.header.Values("Warning")
					if mode == "Ignore" {
						require.Empty(t, warnings)
						continue
					}
					require.Len(t, warnings, len(fields), "one per field: %v", warnings)
					for _, f := range fields {
						require.Contains(t, warnings, "299 - "+fmt.Sprintf("%q", f))
					}
				}
				s.untouched(cratePath, func() {
					for _, mode := range []string{"strict", "Foo", "Warn,Strict"} {
						s.ask1(way.with("fieldValidation="+mode)).refused(422, "Invalid", "").
							because("FieldValueNotSupported", "fieldValidation", `supported values: "Ignore", "Warn", "Strict"`)
					}
				})
			})
		})
	}
}

// One schema decides what is published, defaulted, pruned, rejected and merged.
func TestOAPI_01_OAPI_02_OAPI_03_OAPI_04_OAPI_05_OneSchema(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		v2 := s.get("/openapi/v2").is(200)
		require.Equal(t, "2.0", v2.at("swagger"))
		etag := v2.header.Get("ETag")
		require.NotEmpty(t, etag)
		require.Empty(t, s.get("/openapi/v2", "If-None-Match", etag).is(304).body)
		proto := s.get("/openapi/v2", "Accept", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf").is(200)
		require.Contains(t, proto.header.Get("Content-Type"), "proto-openapi")
		require.NotEqual(t, v2.body[0], proto.body[0])

		index := s.get("/openapi/v3").is(200)
		address, _ := at(index.at("paths", "apis/shop.example.com/v1"), "serverRelativeURL").(string)
		parsed, err := url.Parse(address)
		require.NoError(t, err)
		require.NotEmpty(t, parsed.Query().Get("hash"))
		doc := s.get(address).is(200)
		require.Contains(t, doc.header.Get("Cache-Control"), "immutable")
		require.Contains(t, doc.header.Get("Cache-Control"), "public")
		stale := s.get(parsed.Path + "?hash=OLD")
		require.Equal(t, 301, stale.code)
		require.Contains(t, stale.header.Get("Location"), address)
		require.NotContains(t, s.get(parsed.Path).is(200).header.Get("Cache-Control"), "immutable", "without a hash it may change")

		schemas, _ := doc.at("components", "schemas").(map[string]any)
		var crate, specOf map[string]any
		for _, v := range schemas {
			for _, gvk := range list(at(v, "x-kubernetes-group-version-kind")) {
				if at(gvk, "kind") == "Crate" {
					crate, _ = v.(map[string]any)
				}
			}
		}
		require.NotNil(t, crate)
		specOf = resolve(t, doc, at(crate, "properties", "spec"))
		property := func(name string) map[string]any { return resolve(t, doc, at(specOf, "properties", name)) }
		require.Equal(t, "map", property("parts")["x-kubernetes-list-type"])
		require.Equal(t, []any{"name"}, property("parts")["x-kubernetes-list-map-keys"])
		require.Equal(t, "set", property("tags")["x-kubernetes-list-type"])
		require.Equal(t, "atomic", property("fixed")["x-kubernetes-map-type"])
		require.Equal(t, "blue", property("color")["default"])
		require.ElementsMatch(t, []any{"red", "green", "blue"}, property("color")["enum"])
		require.InDelta(t, 1000, property("size")["maximum"], 0)
		paths, _ := doc.at("paths").(map[string]any)
		item, _ := paths["/apis/shop.example.com/v1/namespaces/{namespace}/crates/{name}"].(map[string]any)
		require.Equal(t, "put", at(item, "put", "x-kubernetes-action"))
		require.Equal(t, "Crate", at(item, "put", "x-kubernetes-group-version-kind", "kind"))
		for _, contentType := range []string{mergeType, jsonPatchType, applyType} {
			require.Contains(t, at(item, "patch", "requestBody", "content"), contentType)
		}

		// Writes follow it too.
		got := s.crate("a", `"size":1000,"parts":[{"name":"p"}]`)
		require.Equal(t, property("color")["default"], got.at("spec", "color"))
		s.refuses("POST", cratePath, crateJSON("b", `"size":1001`), jsonType, 422, "Invalid", "1000")
		s.refuses("POST", cratePath, crateJSON("b", `"color":"pink"`), jsonType, 422, "Invalid", `"red", "green", "blue"`)
		for name := range specOf["properties"].(map[string]any) {
			s.do("POST", cratePath+"?fieldValidation=Strict&dryRun=All", crateJSON("b", fmt.Sprintf(`%q:null`, name))).is(201)
		}
		s.refuses("POST", cratePath+"?fieldValidation=Strict", crateJSON("b", `"other":null`), jsonType, 400, "BadRequest", "spec.other")
	})
}

func list(v any) []any { l, _ := v.([]any); return l }

// resolve follows a schema's reference, either direct or as the only part of allOf.
func resolve(t *testing.T, doc *answer, v any) map[string]any {
	t.Helper()
	m, _ := v.(map[string]any)
	if all := list(m["allOf"]); len(all) == 1 {
		m, _ = all[0].(map[string]any)
	}
	if ref, ok := m["$ref"].(string); ok {
		m, _ = doc.at("components", "schemas", strings.TrimPrefix(ref, "#/components/schemas/")).(map[string]any)
	}
	require.NotNil(t, m)
	return m
}

// Gadget is the old form of a kind. newGadget is its new form, with one default more and one field
// less.
type Gadget struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Spec struct {
		Size int32  `json:"size,omitempty"`
		Old  string `json:"old,omitempty"`
	} `json:"spec,omitzero"`
}

type newGadget struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Spec struct {
		Size  int32  `json:"size,omitempty"`
		Color string `json:"color,omitempty" default:"blue" selectable:""`
	} `json:"spec,omitzero"`
}

// Reads show a default that a new release of the program adds at once, at the stored version.
// Writing a read object back stores the default.
func TestRULE_9_ANewDefaultAcrossARestart(t *testing.T) {
	const path = "/apis/shop.example.com/v1/namespaces/default/gadgets"
	onEachBackend(t, func(t *testing.T, open func() storage.Backend) {
		s := start(t, open, kindwright.Serve(registry.Kind[Gadget]{Group: group, Version: "v1", Plural: "gadgets"}))
		before := s.create(path, `{"metadata":{"name":"a"},"spec":{"size":3,"old":"x"}}`)
		other := s.create(path, `{"metadata":{"name":"b"},"spec":{"size":4}}`)
		require.NotContains(t, string(before.body), "blue")
		s.stop()

		s = start(t, open, kindwright.Serve(registry.Kind[newGadget]{Group: group, Version: "v1", Plural: "gadgets", Names: registry.Names{Kind: "Gadget"}}))
		got := s.get(path + "/a").is(200)
		require.Equal(t, before.version(), got.version())
		require.JSONEq(t, `{"size":3,"color":"blue"}`, spec(got))
		require.Equal(t, before.at("metadata", "uid"), got.at("metadata", "uid"))
		items := s.get(path).items()
		require.Len(t, items, 2)
		require.Equal(t, got.doc, items[0])
		require.Equal(t, other.version(), at(items[1], "metadata", "resourceVersion"))
		require.Equal(t, []string{"a", "b"}, s.get(path+"?fieldSelector=spec.color%3Dblue").names(), "selectors see the default")
		for _, query := range []string{"?watch=1&resourceVersion=0", "?watch=1", "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"} {
			require.Equal(t, got.doc, s.watch(path+query).expect("ADDED", "a").object, "%s", query)
		}
		exact := s.get(path + "?resourceVersionMatch=Exact&resourceVersion=" + other.version())
		require.JSONEq(t, `{"size":3,"color":"blue"}`, string(must(json.Marshal(at(exact.items()[0], "spec")))), "reads from the store show it too")
		require.Equal(t, other.version(), s.get(path).version(), "nothing was written")

		// An empty patch changes the version, because the shown state is then stored. So does a
		// replacement.
		w := s.watch(path + "?watch=1&resourceVersion=" + other.version())
		replaced := s.do("PUT", path+"/a", string(got.body)).is(200)
		require.NotEqual(t, got.version(), replaced.version())
		require.Equal(t, spec(got), spec(replaced))
		require.Equal(t, replaced.doc, w.expect("MODIFIED", "a").object)
		require.Equal(t, replaced.version(), s.do("PUT", path+"/a", string(replaced.body)).is(200).version(), "once")
		require.NotEqual(t, other.version(), s.change(path+"/b", mergeType, `{}`).is(200).version())
		w.expect("MODIFIED", "b")
		s.stop()

		// The default is stored: a program that does not know it still reads it.
		raw := start(t, open, kindwright.Serve(registry.Kind[keptGadget]{Group: group, Version: "v1", Plural: "gadgets", Names: registry.Names{Kind: "Gadget"}}))
		stored := raw.get(path + "/a").is(200)
		require.JSONEq(t, `{"size":3,"color":"blue"}`, spec(stored))
		require.Equal(t, replaced.version(), stored.version())
	})
}

type keptGadget struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Spec struct {
		Size  int32  `json:"size,omitempty"`
		Color string `json:"color,omitempty"`
		Old   string `json:"old,omitempty"`
	} `json:"spec,omitzero"`
}

// A typed hook changes only the fields that it sets. The order of fields and fields unknown to T
// stay.
func TestRULE_7_HooksChangeOnlyTheirFields(t *testing.T) {
	identity := crates()
	identity.Rules.Default = func(context.Context, *Crate) {}
	identity.Rules.Validate = func(_ context.Context, c *Crate, _ *status.Fields) {
		c.Spec.Text = "what a validator does has no effect"
	}
	one := crates()
	one.Rules.Default = func(_ context.Context, c *Crate) { c.Spec.Owner = "me" }
	const sent = `{"metadata":{"name":"a","annotations":{"k":""}},"spec":{"text":"","notes":{},"lines":[],"optional":false,"null":null,"load":1e300,"weight":9007199254740993,"parts":[{"name":"p","tags":[]}]}}`
	body := func(s *server) string {
		out, err := json.Marshal(s.create(cratePath, sent).at("spec"))
		require.NoError(s.t, err)
		return string(out)
	}
	var plain, same, changed string
	onCrates(t, func(_ *testing.T, s *server) { plain = body(s) })
	onEach(t, func(t *testing.T, s *server) {
		same = body(s)
		require.Equal(t, plain, same)
		// A missing spec stays missing.
		require.Nil(t, s.create(cratePath, `{"metadata":{"name":"b"}}`).at("spec"))
	}, kindwright.Serve(identity))
	onEach(t, func(t *testing.T, s *server) {
		changed = body(s)
		require.JSONEq(t, strings.Replace(plain, `"optional"`, `"owner":"me","optional"`, 1), changed)
	}, kindwright.Serve(one))
}

// Fields added by admission have no owner (rule 20): a second manager can apply another value
// without a conflict.
func TestRULE_20_AdmissionOwnsNothing(t *testing.T) {
	plugin := admission.Plugin{Name: "injector", Mutator: admission.MutatorFunc(func(_ context.Context, r *admission.Request) (map[string]any, error) {
		if at(r.Object, "spec", "text") == nil {
			return admission.Patched(r, admission.Set("injected", "spec", "text"), admission.Set("in", "metadata", "labels", "side"), admission.Set("dropped", "spec", "nobodyKnows"))
		}
		return admission.Allowed(r)
	})}
	onCrates(t, func(t *testing.T, s *server) {
		got := s.apply("ann", `"size":1`).is(201)
		require.Equal(t, "injected", got.at("spec", "text"))
		require.Nil(t, got.at("spec", "nobodyKnows"), "fields outside the schema are dropped again")
		require.Equal(t, []string{"ann Apply: spec/size"}, owners(got))
		got = s.apply("bob", `"text":"mine"`).is(200)
		require.Equal(t, []string{"ann Apply: spec/size", "bob Apply: spec/text"}, owners(got))
		got = s.apply("ann", `"size":1`).is(200)
		require.Equal(t, "mine", got.at("spec", "text"))
	}, kindwright.Admit(plugin))
}

// Admission sees the stored object as the old one, whatever plugins did to earlier copies, and runs
// on the final object of every kind of write.
func TestX1_X11_AdmissionRunsOnEveryWrite(t *testing.T) {
	var seen []*admission.Request
	plugin := admission.Plugin{
		Name: "spy",
		Mutator: admission.MutatorFunc(func(_ context.Context, r *admission.Request) (map[string]any, error) {
			if r.Object == nil {
				return nil, nil
			}
			return admission.Patched(r, admission.Set("was here", "metadata", "annotations", "mutator"))
		}),
		Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
			if r.Resource.Group == group {
				seen = append(seen, r)
			}
			return nil
		}),
	}
	onCrates(t, func(t *testing.T, s *server) {
		operations := map[string]admission.Operation{"create": "CREATE", "generated name": "CREATE", "apply-create": "CREATE", "delete": "DELETE", "deletecollection": "DELETE"}
		for what, r := range everyWrite() {
			if what == "create on update" {
				continue
			}
			s.do("DELETE", cratePath, "").is(200)
			s.do("POST", cratePath, crateJSON("a", `"size":1`)).is(201)
			before := s.get(cratePath + "/a").doc
			seen = nil
			got := s.ask1(r)
			require.Less(t, got.code, 300, "%s: %s", what, got)
			require.Len(t, seen, 1, "%s", what)
			want, known := operations[what]
			if !known {
				want = "UPDATE"
			}
			require.Equal(t, want, seen[0].Operation, "%s", what)
			require.Equal(t, strings.Contains(r.path, "/status"), seen[0].Subresource == "status", "%s", what)
			if want != "CREATE" {
				require.Equal(t, roundTrip(t, before), roundTrip(t, seen[0].OldObject), "%s", what)
			} else {
				require.Nil(t, seen[0].OldObject, "%s", what)
			}
			if want == "DELETE" {
				continue
			}
			final := roundTrip(t, seen[0].Object)
			delete(final["metadata"].(map[string]any), "resourceVersion")
			stored := roundTrip(t, got.doc)
			delete(stored["metadata"].(map[string]any), "resourceVersion")
			require.Equal(t, stored, final, "%s", what)
		}
	}, kindwright.Admit(plugin))
}

func roundTrip(t *testing.T, v any) map[string]any {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	var out map[string]any
	require.NoError(t, json.Unmarshal(data, &out))
	return out
}

// A server that checks its plugins detects one that modifies its input: through either of its sides
// and every kind of write, the write fails and nothing is stored.
func TestX1_X5_PluginsThatModifyTheirInput(t *testing.T) {
	on := false
	spoil := func(tree map[string]any) {
		if m, ok := tree["metadata"].(map[string]any); ok && on {
			m["name"], m["uid"], m["labels"] = "evil", "evil", map[string]any{"evil": "yes"}
			tree["spec"] = "evil"
		}
	}
	ours := []admission.Rule{{Groups: []string{group}}}
	mutator := admission.Plugin{Name: "spoiler", Rules: ours, Mutator: admission.MutatorFunc(func(_ context.Context, r *admission.Request) (map[string]any, error) {
		spoil(r.OldObject)
		spoil(r.Object)
		return r.Object, nil
	})}
	validator := admission.Plugin{Name: "spoiler", Rules: ours, Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
		spoil(r.OldObject)
		spoil(r.Object)
		return nil
	})}
	for _, plugin := range []admission.Plugin{mutator, validator} {
		onCrates(t, func(t *testing.T, s *server) {
			for what, r := range everyWrite() {
				if what == "create on update" {
					continue
				}
				on = false
				s.do("POST", cratePath, crateJSON("a", `"size":1`))
				s.untouched(cratePath, func() {
					on = true
					got := s.ask1(r)
					require.Equal(t, 500, got.code, "%s: %s", what, got)
					require.NotContains(t, string(got.body), "evil", "%s", what)
				})
			}
		}, kindwright.Admit(plugin))
	}
}

// Plugins cannot change the identity of an object; nothing is stored under either name.
func TestX5_X6_AdmissionCannotChangeIdentity(t *testing.T) {
	var edits []admission.Edit
	plugin := admission.Plugin{Name: "thief", Mutator: admission.MutatorFunc(func(_ context.Context, r *admission.Request) (map[string]any, error) {
		if edits == nil {
			return admission.Allowed(r)
		}
		return admission.Patched(r, edits...)
	})}
	onCrates(t, func(t *testing.T, s *server) {
		edits = nil
		s.crate("a", `"size":1`)
		for _, edit := range []admission.Edit{
			admission.Set("b", "metadata", "name"), admission.Set("kube-system", "metadata", "namespace"), admission.Set("Widget", "kind"), admission.Set("v9", "apiVersion"),
			admission.Set(map[string]any{}, "metadata"), admission.Remove("metadata"), admission.Remove("metadata", "name"), admission.Set("text", "metadata"), admission.Set(7, "spec"),
		} {
			edits = []admission.Edit{edit}
			for _, r := range []request{
				{"POST", cratePath, jsonType, crateJSON("new", "")},
				{"PUT", cratePath + "/a", jsonType, crateJSON("a", `"size":2`)},
				{"PATCH", cratePath + "/a", mergeType, `{"spec":{"size":2}}`},
				{"PATCH", cratePath + "/new?fieldManager=m", applyType, crateJSON("new", "")},
				{"PUT", cratePath + "/a/status", jsonType, `{"metadata":{"name":"a"},"status":{"phase":"x"}}`},
			} {
				s.untouched(cratePath, func() {
					got := s.ask1(r.with("dryRun=All"))
					if got.code == 200 {
						require.Equal(t, spec(s.get(cratePath+"/a")), spec(got), "the status path cannot change the spec")
						return
					}
					got = s.ask1(r)
					require.Contains(t, []int{422, 500}, got.code, "%v %s: %s", edit, r.body, got)
					require.NotContains(t, string(got.body), "goroutine")
				})
			}
		}
		edits = []admission.Edit{admission.Set("11111111-2222-4333-8444-555555555555", "metadata", "uid"), admission.Set("x", "metadata", "resourceVersion"), admission.Set(99, "metadata", "generation")}
		first := s.get(cratePath + "/a")
		for _, r := range []request{{"PUT", cratePath + "/a", jsonType, crateJSON("a", `"size":2`)}, {"PATCH", cratePath + "/a", mergeType, `{"spec":{"size":2}}`}} {
			got := s.ask1(r)
			require.Contains(t, []int{200, 500}, got.code)
			now := s.get(cratePath + "/a")
			require.Equal(t, first.at("metadata", "uid"), now.at("metadata", "uid"))
			require.Less(t, now.at("metadata", "generation"), 9.0)
		}
		edits = nil
		names := s.get(cratePath).names()
		slices.Sort(names)
		require.Equal(t, []string{"a"}, names)
	}, kindwright.Admit(plugin))
}

// The repeated names of a body in YAML are reported as the YAML library of Kubernetes does, before the
// unknown fields, and those of the metadata of embedded objects come last (QUERY-23).
func TestQUERY_23_RepeatedNamesOfYAML(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		body := "apiVersion: shop.example.com/v1\nkind: Widget\nmetadata:\n  name: a\n  name: b\n  annotations: {note: \"!\"}\nspec:\n  size: 1\n  size: 2\n  colour: red\n"
		post := func(mode string) *answer {
			return s.do("POST", widgetPath+"?dryRun=All&fieldValidation="+mode, body, "Content-Type", "application/yaml")
		}
		post("Strict").refused(400, "BadRequest", "strict decoding error: yaml: unmarshal errors:\n"+
			"  line 5: key \"name\" already set in map\n  line 9: key \"size\" already set in map, unknown field \"spec.colour\"")
		require.Equal(t, []string{
			`299 - "line 5: key \"name\" already set in map"`, `299 - "line 9: key \"size\" already set in map"`, `299 - "unknown field \"spec.colour\""`,
		}, post("Warn").is(201).header.Values("Warning"))
		require.Empty(t, post("Ignore").is(201).header.Values("Warning"))
	})
}

// The members of the operations of a JSON patch are reported as such (QUERY-23, PATCH-06).
func TestQUERY_23_MembersOfAJSONPatch(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "")
		patch := `[{"op":"add","path":"/spec/size","value":5,"foo":1},{"op":"add","path":"/x","path":"/spec/size","value":6}]`
		s.do("PATCH", widgetPath+"/a?fieldValidation=Strict", patch, "Content-Type", "application/json-patch+json").
			refused(422, "Invalid", `strict decoding error: json patch unknown field "[0].foo", json patch duplicate field "[1].path"`)
	})
}
