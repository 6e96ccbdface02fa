package conformance

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMETA_01_EveryStoredObjectHasAName(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.crate("a", "")
		s.create(cratePath, `{"metadata":{"generateName":"g-"}}`)
		s.apply("m", "").is(200)
		for _, path := range []string{cratePath, "/api/v1/namespaces"} {
			for _, item := range s.get(path).items() {
				name, _ := at(item, "metadata", "name").(string)
				require.NotEmpty(t, name)
				require.Equal(t, name, s.get(path+"/"+name).is(200).at("metadata", "name"))
			}
		}
	})
}

func TestMETA_03_META_04_TheVersionChangesWithEveryChange(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		seen := map[string]bool{}
		note := func(a *answer) *answer {
			require.False(t, seen[a.version()], "%s", a)
			seen[a.version()] = true
			return a
		}
		got := note(s.crate("a", `"size":1`))
		note(s.do("PUT", cratePath+"/a", strings.Replace(string(got.body), `"size":1`, `"size":2`, 1)).is(200)) // sent back as returned
		note(s.patch(cratePath+"/a", `{"metadata":{"labels":{"a":"b"}}}`))
		note(s.do("PUT", cratePath+"/a/status", `{"metadata":{"name":"a"},"status":{"phase":"x"}}`).is(200))
		note(s.patch(cratePath+"/a", `{"metadata":{"finalizers":["f.example.com/f"]}}`))
		note(s.do("DELETE", cratePath+"/a", "").is(200))
		last := s.get(cratePath + "/a")
		for _, same := range []*answer{
			s.patch(cratePath+"/a", `{"metadata":{"labels":{"a":"b"}}}`), s.do("PUT", cratePath+"/a", string(last.body)).is(200), s.do("DELETE", cratePath+"/a", "").is(200),
			s.change(cratePath+"/a", jsonPatchType, `[]`).is(200),
		} {
			require.Equal(t, last.version(), same.version(), "the object must not change: %s", same)
		}
		// A returned version is valid for reads and watches.
		for _, v := range []string{got.version(), last.version()} {
			s.get(cratePath + "/a?resourceVersion=" + v).is(200)
			s.get(cratePath + "?resourceVersion=" + v + "&resourceVersionMatch=Exact").is(200)
		}
		s.watch(cratePath+"?watch=1&resourceVersion="+got.version()).expect("MODIFIED", "a")
	})
}

func TestMETA_05_META_07_META_08_META_19_ImmutableMetadata(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		first := s.crate("a", `"size":1`)
		require.Contains(t, string(first.body), `"uid":"`)
		require.Equal(t, "2000-01-01T00:00:00Z", first.at("metadata", "creationTimestamp"), "the server's clock, in seconds")
		require.NotEqual(t, first.at("metadata", "uid"), s.crate("b", "").at("metadata", "uid"))
		time.Sleep(90 * time.Minute)
		body := strings.Replace(string(first.body), `"creationTimestamp":"2000-01-01T00:00:00Z"`, `"creationTimestamp":"1999-01-01T00:00:00+02:00"`, 1)
		require.Equal(t, first.version(), s.do("PUT", cratePath+"/a", body).is(200).version(), "it changes nothing")
		for _, missing := range []string{`{"metadata":{"name":"a"},"spec":{"size":2}}`, `{"metadata":{"name":"a","uid":"","creationTimestamp":null},"spec":{"size":3}}`} {
			got := s.do("PUT", cratePath+"/a", missing).is(200)
			for _, field := range []string{"uid", "creationTimestamp", "name", "namespace"} {
				require.Equal(t, first.at("metadata", field), got.at("metadata", field))
			}
		}
		got := s.refuses("PUT", cratePath+"/a", `{"metadata":{"name":"a","uid":"11111111-2222-4333-8444-555555555555"}}`, jsonType, 409, "Conflict", "Precondition failed: UID in precondition: 11111111-2222-4333-8444-555555555555, UID in object meta: "+first.text("metadata", "uid"))
		require.Equal(t, "a", got.at("details", "name"))
		require.Equal(t, "2000-01-01T01:30:00Z", s.crate("c", "").at("metadata", "creationTimestamp"))
	})
}

func TestMETA_06_TheServerSetsTheDeletionTimestamp(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		created := s.create(cratePath, `{"metadata":{"name":"a","finalizers":["f.example.com/f"]},"spec":{"size":1}}`)
		for _, body := range []string{`{"metadata":{"deletionTimestamp":"2001-01-01T00:00:00Z","deletionGracePeriodSeconds":1}}`} {
			require.Equal(t, created.version(), s.patch(cratePath+"/a", body).version())
		}
		time.Sleep(time.Hour)
		marked := s.do("DELETE", cratePath+"/a", "").is(200)
		require.Equal(t, "2000-01-01T01:00:00Z", marked.at("metadata", "deletionTimestamp"))
		time.Sleep(time.Hour)
		for _, r := range []request{
			{"PUT", cratePath + "/a", jsonType, `{"metadata":{"name":"a","finalizers":["f.example.com/f"]},"spec":{"size":2}}`},
			{"PATCH", cratePath + "/a", mergeType, `{"metadata":{"deletionTimestamp":null},"spec":{"size":3}}`},
			{"PATCH", cratePath + "/a", jsonPatchType, `[{"op":"remove","path":"/metadata/deletionTimestamp"},{"op":"replace","path":"/spec/size","value":4}]`},
			{"PATCH", cratePath + "/a", mergeType, `{"metadata":{"deletionTimestamp":"2030-01-01T00:00:00Z"},"spec":{"size":5}}`},
			{"DELETE", cratePath + "/a", "", ""},
		} {
			got := s.ask1(r).is(200)
			require.Equal(t, marked.at("metadata", "deletionTimestamp"), got.at("metadata", "deletionTimestamp"), "%s", r.body)
		}
	})
}

func TestMETA_09_META_10_LabelsAreSelectedByAnnotationsAreNot(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.create(cratePath, `{"metadata":{"name":"a","labels":{"app":"x","empty":"","example.com/k":"v"},"annotations":{"note":"app=x","example.com/j":"{\"any\":\"text\"}","e":""}}}`)
		s.create(cratePath, `{"metadata":{"name":"b","labels":{"app":"y"},"annotations":{"app":"x"}}}`)
		for selector, names := range map[string][]string{"app=x": {"a"}, "app": {"a", "b"}, "empty=": {"a"}, "example.com/k=v": {"a"}, "note": {}, "app=x,note": {}, "example.com/j": {}} {
			require.Equal(t, names, s.get(cratePath+"?labelSelector="+url.QueryEscape(selector)).names(), selector)
		}
		s.get(cratePath+"?fieldSelector=metadata.annotations.note%3Dx").refused(400, "BadRequest", "")
		s.get(cratePath+"?fieldSelector=metadata.labels.app%3Dx").refused(400, "BadRequest", "")
		require.Equal(t, `{"any":"text"}`, s.get(cratePath+"/a").text("metadata", "annotations", "example.com/j"))
		s.patch(cratePath+"/a", `{"metadata":{"labels":{"app":"y"}}}`)
		require.Equal(t, []string{"a", "b"}, s.get(cratePath+"?labelSelector=app%3Dy").names())
	})
}

func TestMETA_11_TheServerSetsManagedFields(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		got := s.do("POST", cratePath+"?fieldManager=ann", `{"metadata":{"name":"a","managedFields":[{"manager":"eve","operation":"Apply","apiVersion":"shop.example.com/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:size":{}}}}]},"spec":{"size":1}}`).is(201)
		require.Equal(t, []string{"ann Update: spec/. spec/color spec/size"}, owners(got), "the creator owns the fields, whatever managedFields says")
		require.Equal(t, owners(got), owners(s.get(cratePath+"/a")))
		for _, body := range []string{`[]`, `null`, `[{"manager":"eve"}]`} {
			got = s.do("PUT", cratePath+"/a?fieldManager=eve", `{"metadata":{"name":"a","managedFields":`+body+`},"spec":{"size":1}}`).is(200)
			require.Equal(t, []string{"ann Update: spec/. spec/color spec/size"}, owners(got), "%s", body)
		}
		require.NotEmpty(t, owners(s.widget("w", "")))
		require.NotEmpty(t, owners(s.create(zonePath, `{"metadata":{"name":"z"},"place":"x"}`)))
		require.NotEmpty(t, owners(s.event("e", "")))
	})
}

func TestMETA_12_TheGenerationCountsChangesOfDesiredState(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.create(cratePath, `{"metadata":{"name":"a","finalizers":["f.example.com/f"],"generation":77},"spec":{"size":1}}`)
		want := 1.0
		for _, c := range []struct {
			adds float64
			request
		}{
			{0, request{"PATCH", cratePath + "/a", mergeType, `{"metadata":{"labels":{"a":"b"},"annotations":{"c":"d"}}}`}},
			{0, request{"PATCH", cratePath + "/a/status", mergeType, `{"status":{"phase":"x"}}`}},
			{1, request{"PATCH", cratePath + "/a", mergeType, `{"spec":{"size":2}}`}},
			{0, request{"PATCH", cratePath + "/a", mergeType, `{"spec":{"size":2}}`}},
			{0, request{"PATCH", cratePath + "/a", mergeType, `{"metadata":{"generation":50}}`}},
			{1, request{"PUT", cratePath + "/a", jsonType, `{"metadata":{"name":"a","generation":5,"finalizers":["f.example.com/f"]},"spec":{"size":2,"text":"x"}}`}},
			{0, request{"PUT", cratePath + "/a", jsonType, `{"metadata":{"name":"a","finalizers":["f.example.com/f"]},"spec":{"size":2,"text":"x"}}`}},
			{1, request{"PATCH", cratePath + "/a?fieldManager=m", applyType, crateJSON("a", `"tags":["x"]`)}},
			{0, request{"PATCH", cratePath + "/a?fieldManager=n", applyType, crateJSON("a", `"tags":["x"]`)}}, // ownership is not desired state
			{1, request{"DELETE", cratePath + "/a", "", ""}},
			{0, request{"DELETE", cratePath + "/a", "", ""}},
		} {
			want += c.adds
			require.InDelta(t, want, s.ask1(c.request).is(200).at("metadata", "generation"), 0, "%s %s", c.method, c.body)
		}
	})
}

func TestMETA_13_FinalizersHoldAnObject(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.create(cratePath, `{"metadata":{"name":"a","finalizers":["f.example.com/f","g.example.com/g"]}}`)
		s.do("DELETE", cratePath+"/a", "").is(200)
		for _, r := range []request{
			{"PATCH", cratePath + "/a", mergeType, `{"metadata":{"finalizers":["f.example.com/f","g.example.com/g","h.example.com/h"]}}`},
			{"PATCH", cratePath + "/a", mergeType, `{"metadata":{"finalizers":["h.example.com/h"]}}`},
			{"PATCH", cratePath + "/a", strategicType, `{"metadata":{"finalizers":["h.example.com/h"]}}`},
			{"PATCH", cratePath + "/a?fieldManager=m", applyType, `{"apiVersion":"shop.example.com/v1","kind":"Crate","metadata":{"name":"a","finalizers":["h.example.com/h"]}}`},
		} {
			s.refuses(r.method, r.path, r.body, r.contentType, 422, "Invalid", "metadata.finalizers").because("FieldValueForbidden", "metadata.finalizers", "no new finalizers can be added if the object is being deleted")
		}
		w := s.watch(cratePath + "?watch=1&resourceVersion=" + s.get(cratePath).version())
		s.patch(cratePath+"/a", `{"metadata":{"finalizers":["g.example.com/g"]}}`)
		w.expect("MODIFIED", "a")
		s.get(cratePath + "/a").is(200)
		s.patch(cratePath+"/a", `{"metadata":{"finalizers":null}}`)
		s.get(cratePath + "/a").is(404)
		w.expect("DELETED", "a")
		w.quiet(time.Second)
	})
}

func TestMETA_14_OwnerReferences(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.crate("a", "")
		put := func(refs string) *answer {
			return s.do("PUT", cratePath+"/a", `{"metadata":{"name":"a","ownerReferences":[`+refs+`]}}`)
		}
		const good = `{"apiVersion":"v1","kind":"K","name":"n","uid":"u"}`
		for refs, fields := range map[string][]string{
			`{}`: {"apiVersion", "kind", "name", "uid"}, `{"apiVersion":"v1","kind":"K","name":"n"}`: {"uid"}, `{"apiVersion":"v1","kind":"","name":"n","uid":"u"}`: {"kind"},
			`{"apiVersion":"a/b/c","kind":"K","name":"n","uid":"u"}`: {"apiVersion"},
		} {
			s.untouched(cratePath, func() {
				got := put(good+","+refs).refused(422, "Invalid", "metadata.ownerReferences[1]")
				for _, f := range fields {
					require.Contains(t, string(got.body), `"metadata.ownerReferences[1].`+f+`"`)
				}
			})
		}
		var causes []string // one for each field, whether it is missing or empty
		for _, c := range put(`{},{"apiVersion":"","kind":"","name":"","uid":""}`).at("details", "causes").([]any) {
			causes = append(causes, c.(map[string]any)["field"].(string))
		}
		slices.Sort(causes)
		require.Len(t, slices.Compact(slices.Clone(causes)), 8)
		require.Len(t, causes, 8, "%v", causes)
		s.untouched(cratePath, func() {
			put(`{"apiVersion":"v1","kind":"Event","name":"n","uid":"u"}`).refused(422, "Invalid", "metadata.ownerReferences[0]")
			put(`{"apiVersion":"v1","kind":"K","name":"n","uid":"u","controller":true},{"apiVersion":"v1","kind":"K","name":"m","uid":"v","controller":true}`).refused(422, "Invalid", "controller")
		})
		got := put(good + `,{"apiVersion":"v1","kind":"K","name":"n","uid":"v","controller":true},` + good).is(200)
		require.Len(t, got.at("metadata", "ownerReferences"), 2)
		require.Equal(t, []string{`299 - ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, ` +
			`and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: u"`}, got.header.Values("Warning"))
		patched := s.do("PATCH", cratePath+"/a", `[{"op":"add","path":"/metadata/ownerReferences/-","value":`+good+`}]`, "Content-Type", "application/json-patch+json").is(200)
		require.Len(t, patched.at("metadata", "ownerReferences"), 2)
		require.Contains(t, patched.header.Get("Warning"), "duplicate entries after mutating admission happens; ")
		require.Empty(t, put(good).is(200).header.Values("Warning"))
	})
}

func TestMETA_16_B16_LabelsAndAnnotations(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		longKey := strings.Repeat("p", 63) + "." + strings.Repeat("q", 63) + "." + strings.Repeat("r", 63) + "." + strings.Repeat("s", 61)
		require.Len(t, longKey, 253)
		s.create(cratePath, `{"metadata":{"name":"g1"}}`)
		for field, bads := range map[string][][2]string{
			"labels": {
				{"", "x"},
				{"-a", ""},
				{"a-", ""},
				{"a b", ""},
				{"a/b/c", ""},
				{"/a", ""},
				{"a/", ""},
				{"A.com/a", ""},
				{longKey + "x/a", ""},
				{strings.Repeat("n", 64), ""},
				{"é", ""},
				{"k", strings.Repeat("v", 64)},
				{"k", "-"},
				{"k", "a b"},
				{"k", "é"},
				{"k", "a/b"},
				{"k", " "},
			},
			"annotations": {{"", "x"}, {"-a", ""}, {"a b", ""}, {strings.Repeat("n", 64), ""}, {"a/b/c", ""}, {"ſ", ""}, {"a", strings.Repeat("x", 262144)}},
		} {
			for _, kv := range bads {
				body := fmt.Sprintf(`{"metadata":{"name":"bad",%q:{%q:%q}}}`, field, kv[0], kv[1])
				got := s.refuses("POST", cratePath, body, jsonType, 422, "Invalid", "metadata."+field)
				require.Equal(t, "metadata."+field, at(got.at("details", "causes").([]any)[0], "field"), "%s", got)
				s.refuses("PATCH", cratePath+"/g1", fmt.Sprintf(`{"metadata":{%q:{%q:%q}}}`, field, kv[0], kv[1]), mergeType, 422, "Invalid", "metadata."+field)
			}
		}
		many := func(n int, format string) string {
			var b strings.Builder
			for i := range n {
				fmt.Fprintf(&b, format, i)
			}
			return strings.TrimSuffix(b.String(), ",")
		}
		for field, value := range map[string]string{
			"labels": "{" + many(100_000, `"k%d":"v",`) + "}", "finalizers": "[" + many(50_000, `"f.example.com/%d",`) + "]",
			"ownerReferences": "[" + many(30_000, `{"apiVersion":"v1","kind":"K","name":"n","uid":"%d"},`) + "]",
		} {
			got := s.refuses("POST", cratePath, fmt.Sprintf(`{"metadata":{"name":"bad",%q:%s}}`, field, value), jsonType, 422, "Invalid", "metadata."+field)
			require.Less(t, len(got.body), 8<<10)
		}
		// Several errors are reported together.
		s.refuses("POST", cratePath, `{"metadata":{"name":"BAD","labels":{"-":"-"},"annotations":{"-":""},"finalizers":["-"],"ownerReferences":[{}]},"spec":{"size":0}}`, jsonType, 422, "Invalid", "").
			because("FieldValueInvalid", "metadata.name", "").because("FieldValueInvalid", "metadata.labels", "").because("FieldValueInvalid", "metadata.annotations", "").
			because("FieldValueInvalid", "metadata.finalizers[0]", "").because("FieldValueRequired", "metadata.ownerReferences[0].uid", "").because("FieldValueInvalid", "spec.size", "")
		// At the end: each refusal above compares all crates with what they were.
		n := 0
		for field, goods := range map[string][][2]string{
			"labels":      {{"a", ""}, {"A_b.c-9", "V-a_l.9"}, {longKey + "/" + strings.Repeat("n", 63), strings.Repeat("v", 63)}},
			"annotations": {{"UPPER.Example.com/Key", "any\n text"}, {"a", strings.Repeat("x", 262143)}, {"b", strings.Repeat("é", 131071)}},
		} {
			for _, kv := range goods {
				n++
				s.create(cratePath, fmt.Sprintf(`{"metadata":{"name":"good%d",%q:{%q:%q}}}`, n, field, kv[0], kv[1]))
			}
		}
	})
}
