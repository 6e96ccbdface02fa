package conformance

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/registry"
)

const mergeType = "application/merge-patch+json"

// versioned returns crates that can only be replaced with the version that the client read.
func versioned() registry.Kind[Crate] {
	k := crates()
	k.Plural, k.Names.Kind, k.Writes = "cratesets", "CrateSet", registry.WriteRules{RequireVersion: true}
	return k
}

func TestUPDATE_01_UPDATE_06_TheWholeObjectIsReplaced(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		before := s.create(cratePath, `{"metadata":{"name":"a","labels":{"x":"y"},"annotations":{"n":"m"},"finalizers":["a.example.com/f"]},`+
			`"spec":{"color":"red","size":3,"parts":[{"name":"p","count":5},{"name":"q"}],"tags":["t"],"notes":{"k":"v"}}}`)
		got := s.do("PUT", cratePath+"/a", `{"metadata":{"name":"a","labels":{"z":""}},"spec":{"owner":"me","parts":[{"name":"q"}]}}`).is(200)
		require.Equal(t, map[string]any{"color": "blue", "owner": "me", "parts": []any{map[string]any{"name": "q", "count": 1.0}}}, got.at("spec"), "removed, or reset to the default")
		require.Equal(t, map[string]any{"z": ""}, got.at("metadata", "labels"))
		for _, field := range []string{"annotations", "finalizers"} {
			require.Nil(t, got.at("metadata", field), field)
		}
		for _, field := range []string{"uid", "creationTimestamp", "name", "namespace"} {
			require.Equal(t, before.at("metadata", field), got.at("metadata", field), field)
		}
		require.Equal(t, string(got.body), string(s.get(cratePath+"/a").body))
		e := s.watch(cratePath+"?watch=1&resourceVersion="+before.version()).expect("MODIFIED", "a")
		require.Equal(t, got.doc, e.object)
	})
}

func TestUPDATE_02_UPDATE_07_ERR_03_AStaleVersionIsAConflict(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		first := s.crate("a", `"size":1`)
		second := s.do("PUT", cratePath+"/a", strings.Replace(string(first.body), `"size":1`, `"size":2`, 1)).is(200)
		require.NotEqual(t, first.version(), second.version())
		for _, query := range []string{"", "?dryRun=All", "?force=true"} {
			got := s.refuses("PUT", cratePath+"/a"+query, strings.Replace(string(first.body), `"size":1`, `"size":3`, 1), jsonType, 409, "Conflict", "")
			require.Equal(t, `Operation cannot be fulfilled on crates.shop.example.com "a": the object has been modified; please apply your changes to the latest version and try again`, got.text("message"))
			require.Equal(t, map[string]any{"name": "a", "group": group, "kind": "crates"}, got.at("details"))
		}
		// The same holds for a no-op, and for a version from the future.
		s.refuses("PUT", cratePath+"/a", strings.Replace(string(second.body), second.version(), first.version(), 1), jsonType, 409, "Conflict", "modified")
		s.refuses("PUT", cratePath+"/a", strings.Replace(string(second.body), second.version(), second.version()+"0", 1), jsonType, 409, "Conflict", "modified")
		for _, bad := range []string{"x", "-1", "05", " 5", "0x5", "5,6", "1e3", "99999999999999999999999"} {
			s.refuses("PUT", cratePath+"/a", `{"metadata":{"name":"a","resourceVersion":"`+bad+`"}}`, jsonType, 400, "BadRequest", "resource version")
		}
		s.refuses("PUT", cratePath+"/a", `{"metadata":{"name":"a","resourceVersion":7}}`, jsonType, 400, "BadRequest", "resourceVersion")
	})
}

// Of concurrent replacements of one version exactly one succeeds, and no change is lost.
func TestUPDATE_02_OneOfManyWins(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.crate("a", `"weight":0`)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for done := 0; done < 10; {
					var n int
					got := s.get(cratePath + "/a")
					_, err := fmt.Sscan(fmt.Sprint(got.at("spec", "weight")), &n)
					if err != nil {
						return
					}
					old := fmt.Sprintf(`"weight":%d`, n)
					if res := s.do("PUT", cratePath+"/a", strings.Replace(string(got.body), old, fmt.Sprintf(`"weight":%d`, n+1), 1)); res.code == 200 {
						done++
					} else if res.code != 409 {
						return
					}
				}
			})
		}
		wg.Wait()
		require.InDelta(t, 80, s.get(cratePath+"/a").at("spec", "weight"), 0)
	})
}

func TestUPDATE_05_AnAbsentObject(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		for _, query := range []string{"", "?dryRun=All"} {
			got := s.refuses("PUT", cratePath+"/a"+query, crateJSON("a", ""), jsonType, 404, "NotFound", `crates.shop.example.com "a" not found`)
			require.Equal(t, map[string]any{"name": "a", "group": group, "kind": "crates"}, got.at("details"))
		}
		path := "/apis/events.k8s.io/v1/namespaces/default/events/e"
		s.do("PUT", path+"?dryRun=All", eventJSON(t, "e", "{}")).is(201)
		s.get(path).is(404)
		got := s.do("PUT", path, eventJSON(t, "e", "{}")).is(201)
		require.Equal(t, string(got.body), string(s.get(path).body))
		require.Regexp(t, uuid, got.at("metadata", "uid"))
		s.do("PUT", path, string(got.body)).is(200)
		// A request with a version refers to an object that existed.
		s.do("PUT", path+"2", eventJSON(t, "e2", `{"metadata":{"name":"e2","namespace":"default","resourceVersion":"`+got.version()+`"}}`)).refused(404, "NotFound", `"e2" not found`)
		s.do("PUT", "/apis/events.k8s.io/v1/namespaces/absent/events/e", strings.ReplaceAll(eventJSON(t, "e", "{}"), `"namespace":"default"`, `"namespace":"absent"`)).
			refused(404, "NotFound", `namespaces "absent" not found`)
	})
}

func TestUPDATE_08_READ_28_WithoutAVersion(t *testing.T) {
	const path = "/apis/shop.example.com/v1/namespaces/default/cratesets"
	onCrates(t, func(t *testing.T, s *server) {
		s.crate("a", `"size":1`)
		s.patch(cratePath+"/a", `{"spec":{"size":2}}`)
		for _, version := range []string{``, `,"resourceVersion":""`, `,"resourceVersion":null`, `,"resourceVersion":"0"`} {
			s.do("PUT", cratePath+"/a", `{"metadata":{"name":"a"`+version+`},"spec":{"size":3}}`).is(200)
		}
		held := s.create(path, `{"metadata":{"name":"a"}}`)
		for _, version := range []string{``, `,"resourceVersion":""`, `,"resourceVersion":"0"`} {
			s.untouched(path, func() {
				s.do("PUT", path+"/a", `{"metadata":{"name":"a"`+version+`}}`).refused(422, "Invalid", "metadata.resourceVersion: Invalid value: 0: must be specified for an update").
					because("FieldValueInvalid", "metadata.resourceVersion", "must be specified for an update")
			})
		}
		for _, none := range []string{`null`, `""`, `"0"`} { // a patch that takes the version away
			s.do("PATCH", path+"/a", `{"metadata":{"resourceVersion":`+none+`}}`, "Content-Type", mergeType).
				refused(422, "Invalid", `cratesets.shop.example.com "a" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified`)
		}
		s.do("PUT", path+"/a", strings.Replace(string(held.body), `"spec":{`, `"spec":{"size":7,`, 1)).is(200)
		s.patch(path+"/a", `{"spec":{"size":8}}`)
		s.do("PUT", path+"/absent", `{"metadata":{"name":"absent"}}`).refused(404, "NotFound", "")
	}, kindwright.Serve(versioned()))
}

func TestUPDATE_09_AnotherEncodingOfTheSameObjectIsANoOp(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		got := s.create(cratePath, `{"metadata":{"name":"a","labels":{"x":"y"}},"spec":{"weight":9007199254740993,"load":0.5,"lines":["1"],"notes":{"a":"b","c":"d"},"parts":[{"name":"p","tags":["x"]}],"optional":false}}`)
		w := s.watch(cratePath + "?watch=1&resourceVersion=" + got.version())
		list := s.get(cratePath).version()
		time.Sleep(3 * time.Second) // a write would change the times in managed fields
		for what, body := range map[string]string{
			"itself":     string(got.body),
			"pretty":     string(s.get(cratePath + "/a?pretty=true").body),
			"no status":  strings.Replace(string(got.body), `"status":{},`, "", 1),
			"floats":     strings.Replace(string(got.body), `"load":0.5`, `"load":5e-1`, 1),
			"integers":   strings.Replace(string(got.body), `"count":1`, `"count":1.0`, 1),
			"nulls":      strings.Replace(string(got.body), `"spec":{`, `"status":null,"spec":{"owner":null,`, 1),
			"no version": strings.Replace(string(got.body), got.version(), "", 1),
			"short":      `{"metadata":{"name":"a","labels":{"x":"y"},"annotations":{}},"spec":{"notes":{"c":"d","a":"b"},"weight":9007199254740993,"load":0.5,"lines":["1"],"parts":[{"name":"p","tags":["x"]}],"optional":false}}`,
		} {
			again := s.do("PUT", cratePath+"/a", body).is(200)
			require.Equal(t, string(got.body), string(again.body), "%s", what)
		}
		y := s.get(cratePath+"/a", "Accept", "application/yaml")
		require.Equal(t, got.version(), s.do("PUT", cratePath+"/a", string(y.body), "Content-Type", "application/yaml").is(200).version())
		for contentType, body := range map[string]string{
			mergeType: `{"spec":{"load":0.5}}`, "application/json-patch+json": `[{"op":"test","path":"/spec/load","value":0.5}]`,
			"application/strategic-merge-patch+json": `{"spec":{"parts":[{"name":"p","count":1}]}}`,
		} {
			require.Equal(t, string(got.body), string(s.do("PATCH", cratePath+"/a?fieldManager=z", body, "Content-Type", contentType).is(200).body))
		}
		require.Equal(t, list, s.get(cratePath).version())
		w.quiet(time.Second)
	})
}

func TestUPDATE_10_READ_12_CreatingByPutNeedsTheRightToCreate(t *testing.T) {
	only := func(verb string) authz.Authorizer {
		return authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
			if a.User.Name == "bob" && a.Verb == verb || a.User.Name == "both" {
				return authz.Allow, "", nil
			}
			return authz.NoOpinion, "", nil
		})
	}
	path := "/apis/events.k8s.io/v1/namespaces/default/events/e"
	for _, verb := range []string{"update", "create"} {
		t.Run(verb+" only", func(t *testing.T) {
			onEach(t, func(t *testing.T, s *server) {
				for _, query := range []string{"", "?dryRun=All"} {
					s.do("PUT", path+query, eventJSON(t, "e", "{}"), "X-User", "bob", "X-Groups", "").refused(403, "Forbidden", "")
					s.get(path).is(404)
				}
				s.do("PUT", path, eventJSON(t, "e", "{}"), "X-User", "both", "X-Groups", "").is(201)
				got := s.do("PUT", path, eventJSON(t, "e", `{"note":"x"}`), "X-User", "bob", "X-Groups", "")
				require.Equal(t, map[string]int{"update": 200, "create": 403}[verb], got.code, "%s", got)
			}, kindwright.Authorize(only(verb)))
		})
	}
}

func TestUPDATE_11_Z4_SpecAndStatusAreKeptApart(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		got := s.create(cratePath, `{"metadata":{"name":"a"},"spec":{"size":1},"status":{"phase":"sent"}}`)
		require.Nil(t, got.at("status", "phase"), "a create ignores the status")
		generation := func(a *answer) float64 { g, _ := a.at("metadata", "generation").(float64); return g }
		both := func(size, label, phase string) string {
			return `{"metadata":{"name":"a","labels":{"l":"` + label + `"}},"spec":{"size":` + size + `},"status":{"phase":"` + phase + `"}}`
		}
		got = s.do("PUT", cratePath+"/a/status", both("2", "status", "one")).is(200)
		require.Equal(t, []any{1.0, "one", nil, 1.0}, []any{got.at("spec", "size"), got.at("status", "phase"), got.at("metadata", "labels", "l"), generation(got)})
		got = s.do("PUT", cratePath+"/a", both("3", "main", "two")).is(200)
		require.Equal(t, []any{3.0, "one", "main", 2.0}, []any{got.at("spec", "size"), got.at("status", "phase"), got.at("metadata", "labels", "l"), generation(got)})
		for contentType, change := range map[string]string{
			mergeType: both("9", "patch", "P"), "application/strategic-merge-patch+json": both("9", "patch", "P"),
			"application/json-patch+json":  `[{"op":"add","path":"/spec/size","value":9},{"op":"add","path":"/status/phase","value":"P"},{"op":"add","path":"/metadata/labels/l","value":"patch"}]`,
			"application/apply-patch+yaml": `{"apiVersion":"shop.example.com/v1","kind":"Crate",` + both("9", "patch", "P")[1:],
		} {
			s.do("PUT", cratePath+"/a", both("3", "main", "")).is(200)
			s.do("PUT", cratePath+"/a/status", both("3", "main", "one")).is(200)
			before := generation(s.get(cratePath + "/a"))
			got = s.do("PATCH", cratePath+"/a/status?fieldManager=m"+forced(contentType), change, "Content-Type", contentType).is(200)
			require.Equal(t, []any{3.0, "P", "main", before}, []any{got.at("spec", "size"), got.at("status", "phase"), got.at("metadata", "labels", "l"), generation(got)}, "%s", contentType)
			got = s.do("PATCH", cratePath+"/a?fieldManager=n"+forced(contentType), strings.ReplaceAll(change, `"P"`, `"Q"`), "Content-Type", contentType).is(200)
			require.Equal(t, []any{9.0, "P", "patch", before + 1}, []any{got.at("spec", "size"), got.at("status", "phase"), got.at("metadata", "labels", "l"), generation(got)}, "%s", contentType)
		}
		require.Equal(t, string(got.body), string(s.get(cratePath+"/a/status").is(200).body))
		got = s.do("PUT", cratePath+"/a/status", `{"metadata":{"name":"a"}}`).is(200)
		require.Nil(t, got.at("status", "phase"), "omitted fields are removed from the status too")
		s.refuses("PUT", cratePath+"/a/status", `{"metadata":{"name":"a","resourceVersion":"1"}}`, jsonType, 409, "Conflict", "")
		s.refuses("PUT", cratePath+"/b/status", `{"metadata":{"name":"b"}}`, jsonType, 404, "NotFound", "")
		s.refuses("PUT", cratePath+"/a/status", `{"metadata":{"name":"a"},"status":{"conditions":[{"type":"x"},{"type":"x"}]}}`, jsonType, 422, "Invalid", "status.conditions[1]")
		s.refuses("POST", cratePath+"/a/status", `{}`, jsonType, 405, "MethodNotAllowed", "")
	})
}

// Metadata written through the status is owned like the status. Removing the last finalizer there
// removes the object.
func TestUPDATE_11_SSA_31_MetadataAlongWithTheStatus(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.namespace("team")
		const path = namespacePath + "/team"
		got := s.do("PATCH", path+"/status?fieldManager=m", `{"apiVersion":"v1","kind":"Namespace","metadata":{"annotations":{"a":"1"},"labels":{"l":"1"},"generateName":"x"},"spec":{"finalizers":["x/y"]}}`, "Content-Type", applyType).is(200)
		require.Equal(t, []any{"1", "1", "team", []any{"kubernetes"}}, []any{got.at("metadata", "annotations", "a"), got.at("metadata", "labels", "l"), got.at("metadata", "labels", "kubernetes.io/metadata.name"), got.at("spec", "finalizers")})
		s.do("PATCH", path+"?fieldManager=n", `{"apiVersion":"v1","kind":"Namespace","metadata":{"annotations":{"a":"2"}}}`, "Content-Type", applyType).refused(409, "Conflict", ".metadata.annotations.a")
		got = s.do("PATCH", path+"/status?fieldManager=m", `{"apiVersion":"v1","kind":"Namespace"}`, "Content-Type", applyType).is(200)
		require.Nil(t, got.at("metadata", "annotations"))

		s.patch(path, `{"metadata":{"finalizers":["example.dev/hold"]}}`)
		s.delete(path)
		synctest.Wait()
		got = s.get(path).is(200)
		require.Equal(t, []any{[]any{"example.dev/hold"}, nil}, []any{got.at("metadata", "finalizers"), got.at("spec", "finalizers")})
		s.do("PATCH", path+"/status", `{"metadata":{"finalizers":["example.dev/hold","example.dev/other"]}}`, "Content-Type", mergeType).is(422)
		s.do("PATCH", path+"/status", `{"metadata":{"finalizers":null}}`, "Content-Type", mergeType).is(200)
		s.get(path).is(404)
	})
}

func forced(contentType string) string {
	if strings.Contains(contentType, "apply") {
		return "&force=true"
	}
	return ""
}

// An invalid replacement reports all problems with their fields and changes nothing.
func TestUPDATE_InvalidObjectsChangeNothing(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.crate("a", `"size":1,"parts":[{"name":"p"}]`)
		got := s.refuses("PUT", cratePath+"/a", crateJSON("a", `"size":0,"color":"pink","owner":"UPPER and long","parts":[{"name":"p"},{"name":"p"},{"count":2}],"tags":["b","a","b"]`), jsonType, 422, "Invalid", "")
		for _, field := range []string{"spec.size", "spec.color", "spec.owner", "spec.parts[1]", "spec.parts[2].name", "spec.tags[2]"} {
			require.Contains(t, got.text("message"), field)
		}
		require.GreaterOrEqual(t, len(got.at("details", "causes").([]any)), 6)
		got = s.refuses("PUT", cratePath+"/a", crateJSON("a", `"size":"x","color":7,"tags":{}`), jsonType, 422, "Invalid", "")
		for _, field := range []string{"spec.size", "spec.color", "spec.tags"} {
			got.because("FieldValueTypeInvalid", field, "")
		}
		for _, body := range []string{"", "null", "[]", `{"metadata":{"name":"a"}`, `{"metadata":7}`} {
			s.refuses("PUT", cratePath+"/a", body, jsonType, 400, "BadRequest", "")
		}
		// Values that were invalid before do not block updates: package registry tests that
		// (KEP-4008).
	})
}

// A PUT that creates is a create in every respect: rights, admission, namespace, and server-set
// fields.
func TestUPDATE_05_UPDATE_10_PUTsThatCreate(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		before := s.get(leasePath).version()
		put := func(name, rest string, headers ...string) *answer {
			return s.do("PUT", leasePath+"/"+name, `{"metadata":{"name":"`+name+`"`+rest+`}}`, headers...)
		}
		bob := []string{"X-User", "bob", "X-Groups", ""}
		put("l", "", bob...).refused(403, "Forbidden", `cannot create resource "leases"`)
		put("l", `,"uid":"u"`).refused(409, "Conflict", "Precondition failed: UID in precondition: u")
		put("l", `,"resourceVersion":"7"`).refused(404, "NotFound", "")
		put("l", `,"namespace":"other"`).refused(400, "BadRequest", "namespace")
		put("L", "").refused(422, "Invalid", "metadata.name")
		s.do("PUT", leasePath+"/l", `{"metadata":{"generateName":"l"}}`).refused(400, "BadRequest", "name must be provided")
		s.do("PUT", "/apis/coordination.k8s.io/v1/namespaces/nowhere/leases/l", `{"metadata":{"name":"l"}}`).refused(404, "NotFound", `namespaces "nowhere" not found`)
		require.Equal(t, before, s.get(leasePath).version(), "nothing must be created")
		got := put("l", `,"generateName":"x-","creationTimestamp":"1999-01-01T00:00:00Z"`).is(201)
		require.Equal(t, "l", got.at("metadata", "name"))
		require.NotEmpty(t, got.at("metadata", "uid"))
		require.NotEqual(t, "1999-01-01T00:00:00Z", got.at("metadata", "creationTimestamp"))
		put("l", "", bob...).is(200)
		put("l", `,"uid":"`+got.text("metadata", "uid")+`"`).is(200)
		require.Equal(t, "ADDED", s.watch(leasePath+"?watch=1&resourceVersion="+before).change().kind)
		s.do("PUT", widgetPath+"/none", widgetJSON("none", "", "red", 1)).refused(404, "NotFound", "")
		s.do("PUT", widgetPath+"/none/status", widgetJSON("none", "", "red", 1)).refused(404, "NotFound", "")
		// Of concurrent creates of one object, exactly one succeeds.
		var wg sync.WaitGroup
		var codes calls
		for range 10 {
			wg.Go(func() { codes.add(fmt.Sprint(put("many", "").code)) })
		}
		wg.Wait()
		created := 0
		for _, code := range codes.take() {
			require.Contains(t, []string{"200", "201"}, code)
			if code == "201" {
				created++
			}
		}
		require.Equal(t, 1, created)
	}, kindwright.Authorize(allowing("bob update leases")))
}
