package conformance

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

func TestNAME_01_NAME_02_NamesAreUniquePerKindAndNamespace(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.namespace("other")
		first := s.crate("a", `"size":1`)
		s.refuses("POST", cratePath, crateJSON("a", `"size":2`), jsonType, 409, "AlreadyExists", "already exists")
		require.Equal(t, string(first.body), string(s.get(cratePath+"/a").body))
		elsewhere := strings.Replace(cratePath, "/default/", "/other/", 1)
		second := s.create(elsewhere, crateJSON("a", `"size":2`))
		third := s.widget("a", "")
		require.NotEqual(t, first.at("metadata", "uid"), second.at("metadata", "uid"))
		require.NotEqual(t, first.at("metadata", "uid"), third.at("metadata", "uid"))
		require.InDelta(t, 1, s.get(cratePath+"/a").at("spec", "size"), 0)
		require.InDelta(t, 2, s.get(elsewhere+"/a").at("spec", "size"), 0)
		// Versions of a kind share their names.
		s.create(gaugePath, `{"metadata":{"name":"g"}}`)
		s.do("POST", gauge2Path, `{"metadata":{"name":"g"}}`).refused(409, "AlreadyExists", `gauges.shop.example.com "g" already exists`)
		// Names with a common prefix, or with separators of keys, are different names.
		for _, name := range []string{"a.", "a-b", "a.b", "aa", "a-a"} {
			got := s.do("POST", cratePath, crateJSON(name, ""))
			require.Equal(t, map[bool]int{true: 422, false: 201}[name == "a."], got.code, "%s", got)
		}
		s.delete(cratePath + "/a")
		require.Len(t, s.get(cratePath).items(), 4)
	})
}

func TestNAME_03_AfterDeletionTheNameIsFree(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		first := s.crate("a", `"size":1`)
		w := s.watch(cratePath + "?watch=1&resourceVersion=" + first.version())
		s.delete(cratePath + "/a")
		second := s.crate("a", "")
		require.NotEqual(t, first.at("metadata", "uid"), second.at("metadata", "uid"))
		require.Nil(t, second.at("spec", "size"), "no trace of the first object")
		require.InDelta(t, 1, second.at("metadata", "generation"), 0)
		w.expect("DELETED", "a")
		require.Equal(t, second.doc, w.expect("ADDED", "a").object)
		// A write based on the first object does not affect the second.
		s.refuses("PUT", cratePath+"/a", string(first.body), jsonType, 409, "Conflict", "")
		s.do("DELETE", cratePath+"/a", fmt.Sprintf(`{"preconditions":{"uid":%q}}`, first.text("metadata", "uid"))).refused(409, "Conflict", "")
	})
}

func TestNAME_04_NAME_05_P1_ClusterScopedNames(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		zone := s.create(zonePath, `{"metadata":{"name":"z"}}`)
		require.Nil(t, zone.at("metadata", "namespace"))
		s.do("POST", zonePath, `{"metadata":{"name":"z"}}`).refused(409, "AlreadyExists", `zones.shop.example.com "z" already exists`)
		below := "/apis/shop.example.com/v1/namespaces/default/zones"
		for _, r := range []request{
			{"GET", below, "", ""},
			{"GET", below + "/z", "", ""},
			{"POST", below, jsonType, `{"metadata":{"name":"y"}}`},
			{"PUT", below + "/z", jsonType, `{"metadata":{"name":"z"},"place":"x"}`},
			{"PATCH", below + "/z", mergeType, `{"place":"x"}`},
			{"PATCH", below + "/y?fieldManager=m", applyType, `{"apiVersion":"shop.example.com/v1","kind":"Zone","metadata":{"name":"y"}}`},
			{"DELETE", below + "/z", "", ""},
			{"DELETE", below, "", ""},
			{"GET", below + "?watch=1", "", ""},
		} {
			s.untouched(zonePath, func() { s.ask1(r).refused(404, "NotFound", "") })
		}
		s.untouched(zonePath, func() {
			// A namespaced object cannot be created without a namespace.
			got := s.do("POST", widgetsPath, widgetJSON("w", "", "red", 1))
			require.Contains(t, []int{404, 405}, got.code, "%s", got)
			got = s.do("POST", widgetsPath, `{"metadata":{"name":"w","namespace":"default"}}`)
			require.Contains(t, []int{404, 405}, got.code, "%s", got)
		})
		require.Empty(t, s.get(widgetsPath).items())
		// The namespace of a cluster-scoped object has no meaning, and is dropped as by kube-apiserver.
		made := s.do("POST", zonePath, `{"metadata":{"name":"y","namespace":"default"}}`).is(201)
		require.Nil(t, made.at("metadata", "namespace"))
		require.Nil(t, s.do("PUT", zonePath+"/y", `{"metadata":{"name":"y","namespace":"default"}}`).is(200).at("metadata", "namespace"))
	})
}

func TestNAME_06_NAME_07_NAME_08_META_02_GeneratedNames(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		names := map[string]bool{}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				got := s.do("POST", cratePath, `{"metadata":{"generateName":"a-"}}`)
				if got.code != 201 {
					t.Errorf("%s", got)
				}
				mu.Lock()
				defer mu.Unlock()
				names[got.text("metadata", "name")] = true
			})
		}
		wg.Wait()
		require.Len(t, names, 20)
		for name := range names {
			require.Regexp(t, `^a-[bcdfghjklmnpqrstvwxz2456789]{5}$`, name)
			require.Equal(t, "a-", s.get(cratePath+"/"+name).is(200).at("metadata", "generateName"), "kept as it was sent")
		}
		got := s.create(cratePath, `{"metadata":{"name":"mine","generateName":"a-"}}`)
		require.Equal(t, "mine", got.at("metadata", "name"))
		require.Equal(t, "a-", got.at("metadata", "generateName"))
		s.refuses("POST", cratePath, `{"metadata":{"name":"mine","generateName":"a-"}}`, jsonType, 409, "AlreadyExists", "")
		for length, want := range map[int]int{80: 63, 59: 63, 58: 63, 57: 62, 1: 6} {
			prefix := strings.Repeat("x", length)
			got := s.create(cratePath, `{"metadata":{"generateName":"`+prefix+`"}}`)
			require.Len(t, got.at("metadata", "name"), want)
			require.Equal(t, prefix, got.at("metadata", "generateName"), "also if it was shortened")
		}
		// An invalid prefix is reported as an invalid name.
		for _, bad := range []string{"A", "-", "a_b-", "a/b", "..", "é"} {
			s.refuses("POST", cratePath, `{"metadata":{"generateName":"`+bad+`"}}`, jsonType, 422, "Invalid", "metadata.name").because("FieldValueInvalid", "metadata.name", "")
		}
		kept := s.do("PUT", cratePath+"/mine", `{"metadata":{"name":"mine","generateName":"b-"}}`).is(200)
		require.Equal(t, "a-", kept.at("metadata", "generateName"), "updates cannot change it")
		s.create("/api/v1/namespaces", `{"metadata":{"generateName":"`+strings.Repeat("n", 70)+`"}}`)
	})
}

// sameSuffix always returns the same bytes, so generated names collide.
type sameSuffix struct{}

func (sameSuffix) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte{7}, len(p))), nil }

func TestNAME_09_NameGenerationFails(t *testing.T) {
	var _ io.Reader = sameSuffix{}
	onCrates(t, func(t *testing.T, s *server) {
		first := s.create(cratePath, `{"metadata":{"generateName":"a-"}}`)
		var got *answer
		s.untouched(cratePath, func() {
			got = s.do("POST", cratePath, `{"metadata":{"generateName":"a-"}}`).refused(409, "AlreadyExists", "not able to generate a unique name")
		})
		require.Equal(t, first.at("metadata", "name"), got.at("details", "name"))
		require.InDelta(t, 1, got.at("details", "retryAfterSeconds"), 0)
		require.Equal(t, "1", got.header.Get("Retry-After"))
	}, kindwright.Sources{Rand: sameSuffix{}})
}

func TestNAME_10_NeitherNameNorPrefix(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		for _, body := range []string{`{}`, `{"metadata":{}}`, `{"metadata":null}`, `{"metadata":{"name":""}}`, `{"metadata":{"name":null,"generateName":""}}`} {
			for _, query := range []string{"", "?dryRun=All"} {
				s.refuses("POST", cratePath+query, body, jsonType, 422, "Invalid", "name or generateName is required").
					because("FieldValueRequired", "metadata.name", "name or generateName is required")
			}
		}
	})
}

// What else is wrong is said beside a name that is missing, as in Kubernetes.
func TestNAME_10_OtherProblemsAreSaidToo(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.refuses("POST", cratePath, `{"metadata":{"labels":{"a":"b c"}},"spec":{"size":1001}}`, jsonType, 422, "Invalid", "").
			because("FieldValueRequired", "metadata.name", "name or generateName is required").
			because("FieldValueInvalid", "metadata.labels", "").because("FieldValueInvalid", "spec.size", "1000")
	})
}

func TestNAME_11_P6_InvalidNames(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		for _, name := range []string{strings.Repeat("x", 254), strings.Repeat("x", 10000), "A", "a_b", "a.", "-a", "a-", ".a", "a..b", "ａ", "😀", "a b", "a/b", ".", "..", "a%2fb", "a%", "a\n", "a\u2028", "é", "a:b", "*"} {
			got := s.refuses("POST", cratePath, crateJSON(name, ""), jsonType, 422, "Invalid", "metadata.name").because("FieldValueInvalid", "metadata.name", "")
			require.Less(t, len(got.body), 2<<10)
		}
		s.crate(strings.Repeat("x", 253), "")
		s.crate("a.b-c.0", "")
		s.crate("0", "")
		for _, wrong := range []string{`7`, `["a"]`, `{}`, `true`} {
			got := s.do("POST", cratePath, `{"metadata":{"name":`+wrong+`}}`)
			require.Contains(t, []int{400, 422}, got.code, "%s", got)
			require.Contains(t, got.text("message"), "name")
		}
		// A kind may require DNS labels, or accept any valid path segment.
		labels := "/apis/shop.example.com/v1/namespaces/default/labelled"
		s.create(labels, `{"metadata":{"name":"a-b"}}`)
		for _, bad := range []string{"a.b", strings.Repeat("x", 64)} {
			s.do("POST", labels, `{"metadata":{"name":"`+bad+`"}}`).refused(422, "Invalid", "").because("FieldValueInvalid", "metadata.name", "")
		}
		free := "/apis/shop.example.com/v1/namespaces/default/frees"
		for _, good := range []string{"system:a", "A_b", "*"} {
			s.create(free, `{"metadata":{"name":"`+good+`"}}`)
			require.Equal(t, good, s.get(free+"/"+good).is(200).at("metadata", "name"))
		}
		for _, bad := range []string{".", "..", "a/b", "a%b"} {
			s.do("POST", free, `{"metadata":{"name":"`+bad+`"}}`).refused(422, "Invalid", "").because("FieldValueInvalid", "metadata.name", "")
		}
	}, kindwright.Serve(ruled("labelled", "Labelled", meta.CheckDNSLabel), ruled("frees", "Free", func(string) string { return "" })))
}

func TestNAME_12_TheOldObjectIsStillBeingDeleted(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.create(cratePath, `{"metadata":{"name":"a","finalizers":["f.example.com/f"]}}`)
		s.delete(cratePath + "/a")
		for _, query := range []string{"", "?dryRun=All"} {
			s.refuses("POST", cratePath+query, crateJSON("a", ""), jsonType, 409, "AlreadyExists", `object is being deleted: crates.shop.example.com "a" already exists`)
		}
		s.patch(cratePath+"/a", `{"metadata":{"finalizers":null}}`)
		s.get(cratePath + "/a").is(404)
		s.crate("a", "")
	})
}

func TestNAME_13_P7_TheNameOfTheBodyAndOfTheURL(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.namespace("b")
		elsewhere := strings.Replace(cratePath, "/default/", "/b/", 1)
		s.crate("x", "")
		other := s.create(elsewhere, crateJSON("x", ""))
		for _, sub := range []string{"", "/status"} {
			for _, body := range []string{`{"metadata":{"name":"y"}}`, `{"metadata":{}}`, `{}`, `{"metadata":{"name":""}}`, `{"metadata":{"name":7}}`, `{"metadata":{"name":"x","namespace":"b"}}`, `{"metadata":{"name":"X"}}`} {
				s.refuses("PUT", cratePath+"/x"+sub, body, jsonType, 400, "BadRequest", "name")
				s.refuses("PUT", cratePath+"/absent"+sub, body, jsonType, 400, "BadRequest", "name") // whatever is stored
			}
			for _, body := range []string{`{"metadata":{"name":"y"}}`, `{"metadata":{"name":null}}`, `{"metadata":{"namespace":"b"}}`} {
				s.refuses("PATCH", cratePath+"/x"+sub, body, mergeType, 400, "BadRequest", "name")
				s.refuses("PATCH", cratePath+"/x"+sub, body, strategicType, 400, "BadRequest", "name")
			}
			s.refuses("PATCH", cratePath+"/x"+sub, `[{"op":"replace","path":"/metadata/name","value":"y"}]`, jsonPatchType, 400, "BadRequest", "name")
			s.refuses("PATCH", cratePath+"/x"+sub+"?fieldManager=m", crateJSON("y", ""), applyType, 400, "BadRequest", "name")
		}
		s.refuses("POST", cratePath, `{"metadata":{"name":"z","namespace":"b"}}`, jsonType, 400, "BadRequest", "does not match the namespace sent on the request")
		s.do("PUT", cratePath+"/x", `{"metadata":{"name":"x","namespace":""}}`).is(200)
		require.Equal(t, string(other.body), string(s.get(elsewhere+"/x").body), "untouched")
	})
}

// ruled is a kind with its own rule for names.
func ruled(plural, kind string, rule func(string) string) registry.Kind[Zone] {
	return registry.Kind[Zone]{Group: group, Version: "v1", Plural: plural, Names: registry.Names{Kind: kind}, Rules: registry.Rules[Zone]{Name: rule}}
}

// Other servers clean such paths, or decode them after authorization. Here no write gets through.
func TestP2_P3_P4_P5_P9_WritesToOddPaths(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.crate("x", "")
		s.create(zonePath, `{"metadata":{"name":"z"}}`)
		above := "/apis/shop.example.com/v1/namespaces/"
		for _, path := range []string{
			above + "../crates/x", above + "./crates/x", above + "%2e%2e/crates/x", above + "%2E./crates/x", above + "..%2fdefault/crates/x", above + "default%2Fcrates/x", above + "/default/crates/x",
			cratePath + "//x", cratePath + "/./x", cratePath + "/../crates/x", cratePath + "/x%2Fstatus", cratePath + "/x%2F..%2Fx", cratePath + "/%2e%2e/crates/x", cratePath + "/x%00", cratePath + "/x%0A",
			cratePath + "/%ff%fe", cratePath + "/x%7f", cratePath + "/x/status/", cratePath + "/x//status", cratePath + "/x/Status", "//apis/shop.example.com/v1/namespaces/default/crates/x", above + "default/Crates/x",
			above + "default/zones/z", "/apis/shop.example.com/v1/crates/x",
		} {
			s.untouched(zonePath, func() {
				s.untouched(cratePath, func() {
					for _, r := range []request{
						{"POST", path, jsonType, crateJSON("y", "")},
						{"PUT", path, jsonType, crateJSON("x", `"size":5`)},
						{"PATCH", path, mergeType, `{"spec":{"size":5},"status":{"phase":"x"}}`},
						{"PATCH", path + "?fieldManager=m", applyType, crateJSON("x", `"size":5`)},
						{"DELETE", path, "", ""},
					} {
						got := s.ask1(r)
						require.Contains(t, []int{400, 404, 405}, got.code, "%s", got)
						require.Empty(t, got.header.Get("Location"))
						require.Equal(t, "Status", got.at("kind"), "%s", got)
					}
				})
			})
		}
		s.untouched(cratePath, func() {
			s.do("GET", cratePath+"/x?_method=DELETE", "", "X-HTTP-Method-Override", "DELETE", "X-Method-Override", "DELETE").is(200)
			s.do("PROPFIND", cratePath+"/x", "").refused(405, "MethodNotAllowed", "")
			got := s.do("DELETE", cratePath+"?fieldSelector=metadata.name%3D../crates/x", "")
			require.Contains(t, []int{200, 400}, got.code)
			got = s.do("DELETE", cratePath+"?fieldSelector=metadata.namespace%3D..", "")
			require.Contains(t, []int{200, 400}, got.code)
		})
	})
}
