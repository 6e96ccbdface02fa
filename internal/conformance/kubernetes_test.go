package conformance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
)

// Kubernetes' own test suite asks for discovery documents with a slash at the end, and clients that are
// generated from its OpenAPI document ask for /version/, the only form that is there.
func TestDISC_SlashAtTheEnd(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		for _, path := range []string{"/api", "/api/v1", "/apis", "/apis/coordination.k8s.io", "/apis/coordination.k8s.io/v1"} {
			require.Equal(t, s.get(path).is(200).text("kind"), s.get(path+"/").is(200).text("kind"), path)
		}
		require.Equal(t, s.get("/version").is(200).text("gitVersion"), s.get("/version/").is(200).text("gitVersion"))
		s.get("/apis/none/").refused(404, "NotFound", "")
		s.do("POST", "/apis/", "{}").refused(405, "MethodNotAllowed", "")
		s.get(widgetPath+"/").refused(404, "NotFound", "")
	})
}

// Clients that want to know where the server is ask /api.
func TestDISC_AddressOfTheServer(t *testing.T) {
	addresses := func(want any) func(*testing.T, *server) {
		return func(t *testing.T, s *server) {
			require.Equal(t, want, s.get("/api").is(200).at("serverAddressByClientCIDRs"))
		}
	}
	onEach(t, addresses([]any{}))
	onEach(t, addresses([]any{map[string]any{"clientCIDR": "0.0.0.0/0", "serverAddress": "192.0.2.9:6443"}}),
		kindwright.Kubernetes{ServerAddress: "192.0.2.9:6443"})
}

// A review is no stored object, so there is no row and no metadata to answer with (TABLE-06).
func TestREVIEW_HasNoOtherForm(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		const path = authorizationPath + "/selfsubjectaccessreviews"
		const review = `{"spec":{"nonResourceAttributes":{"verb":"get","path":"/"}}}`
		s.do("POST", path, review, "Accept", tableAs).refused(406, "NotAcceptable", "application/json")
		s.do("POST", path, review, "Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").refused(406, "NotAcceptable", "")
		s.do("POST", path, review, "Accept", tableAs+",application/json").is(201)
	})
}

// A body with a value of the wrong JSON type is 422 and names each field, or as in kube-apiserver
// 400, which decodes into Go structs first. What a patch makes is 422 there too (PATCH-15).
func TestCREATE_ValuesOfTheWrongType(t *testing.T) {
	const labels, size = `{"metadata":{"name":"b","labels":{"a":1}}}`, `{"metadata":{"name":"b"},"spec":{"size":"x"}}`
	answers := func(code int, reason string) func(*testing.T, *server) {
		return func(t *testing.T, s *server) {
			s.widget("a", "")
			s.do("POST", widgetPath, labels).refused(code, reason, "metadata.labels")
			s.do("POST", widgetPath, size).refused(code, reason, "spec.size")
			s.do("PUT", widgetPath+"/a", strings.Replace(size, `"b"`, `"a"`, 1)).refused(code, reason, "spec.size")
			s.do("POST", authorizationPath+"/selfsubjectaccessreviews", `{"spec":{"nonResourceAttributes":{"path":7}}}`).refused(code, reason, "path")
			s.do("PATCH", widgetPath+"/a", `{"spec":{"size":"x"}}`, "Content-Type", mergeType).refused(422, "Invalid", "spec.size")
		}
	}
	onEach(t, answers(422, "Invalid"))
	onEach(t, answers(400, "BadRequest"), kindwright.Kubernetes{WrongTypeIsBadRequest: true})
}

// What a client sends in the fields of the server is dropped, and decoded before that.
func TestMETA_17_DroppedMetadataIsDecoded(t *testing.T) {
	answers := func(code int, reason string) func(*testing.T, *server) {
		return func(t *testing.T, s *server) {
			s.widget("a", "")
			for field, v := range map[string]string{
				"generation": `"1"`, "creationTimestamp": `"x"`, "deletionTimestamp": `5`,
				"deletionGracePeriodSeconds": `1.5`, "selfLink": `1`,
			} {
				odd := `{"metadata":{"name":"NAME","` + field + `":` + v + `}}`
				s.do("POST", widgetPath, strings.Replace(odd, "NAME", "b", 1)).refused(code, reason, field)
				s.do("PUT", widgetPath+"/a", strings.Replace(odd, "NAME", "a", 1)).refused(code, reason, field)
				s.do("PATCH", widgetPath+"/a", strings.Replace(odd, "NAME", "a", 1), "Content-Type", mergeType).refused(422, "Invalid", field)
			}
			s.do("POST", widgetPath, `{"metadata":{"name":"b","generation":-1}}`).refused(422, "Invalid", "metadata.generation")
			s.do("PUT", widgetPath+"/a", `{"metadata":{"name":"a","generation":-1,"creationTimestamp":null}}`).is(200)
			s.do("POST", widgetPath, `{"metadata":{"name":"b","generation":7,"creationTimestamp":"2020-01-02T03:04:05Z"}}`).is(201)
		}
	}
	onEach(t, answers(422, "Invalid"))
	onEach(t, answers(400, "BadRequest"), kindwright.Kubernetes{WrongTypeIsBadRequest: true})
}

// kube-apiserver refuses an update that says when an object is to be deleted, and ignores the time of one
// that is being deleted. Here both are dropped by default (META-06).
func TestMETA_06_DeletionIsImmutable(t *testing.T) {
	const when, grace = `"deletionTimestamp":"2020-01-02T03:04:05Z"`, `"deletionGracePeriodSeconds":5`
	onEach(t, func(t *testing.T, s *server) {
		held := `{"metadata":{"name":"a","finalizers":["example.com/f"],MORE},"spec":{"size":1}}`
		with := func(more string) string { return strings.Replace(held, "MORE", more, 1) }
		s.create(widgetPath, with(`"labels":{}`))
		patch := func(path, more string) *answer {
			return s.do("PATCH", path, `{"metadata":{`+more+`}}`, "Content-Type", mergeType)
		}
		path := widgetPath + "/a"
		for field, sent := range map[string]string{"deletionTimestamp": when, "deletionGracePeriodSeconds": grace} {
			field = "metadata." + field
			patch(path, sent).refused(422, "Invalid", field).because("FieldValueInvalid", field, "field is immutable")
			patch(path+"/status", sent).refused(422, "Invalid", field)
			s.do("PUT", path, with(sent)).refused(422, "Invalid", field)
			s.do("PATCH", path+"?fieldManager=m", `{"apiVersion":"shop.example.com/v1","kind":"Widget",`+with(sent)[1:],
				"Content-Type", applyType).refused(422, "Invalid", field)
		}
		patch(path, `"deletionTimestamp":null,"deletionGracePeriodSeconds":null`).is(200)
		marked := s.do("DELETE", path, "").is(200)
		for _, same := range []string{when, `"deletionGracePeriodSeconds":0`, `"deletionTimestamp":null,"deletionGracePeriodSeconds":null`} {
			got := patch(path, same).is(200)
			require.Equal(t, marked.at("metadata"), got.at("metadata"), same)
		}
		patch(path, grace).refused(422, "Invalid", "metadata.deletionGracePeriodSeconds")
		patch(path, `"finalizers":null`).is(200)
	}, kindwright.Kubernetes{DeletionIsImmutable: true})
}

// Programs that write manifests say "creationTimestamp: null", and null in metadata is nothing. A name
// that is null is none, though the merge would keep the stored one.
func TestSSA_NullInMetadata(t *testing.T) {
	onCrates(t, func(t *testing.T, s *server) {
		s.crate("a", `"size":1`)
		for _, field := range []string{
			"namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation",
			"generateName", "selfLink", "labels", "annotations", "finalizers", "ownerReferences", "managedFields",
		} {
			for _, name := range []string{"a", "new"} {
				got := s.do("PATCH", cratePath+"/"+name+"?fieldManager=m&dryRun=All", `{"apiVersion":"shop.example.com/v1","kind":"Crate",`+
					`"metadata":{"name":"`+name+`","`+field+`":null}}`, "Content-Type", applyType)
				require.Equal(t, name, got.text("metadata", "name"), "%s: %s", field, got.body)
				require.Equal(t, "default", got.text("metadata", "namespace"), "%s: %s", field, got.body)
			}
		}
		for _, name := range []string{"a", "new"} {
			s.do("PATCH", cratePath+"/"+name+"?fieldManager=m", `{"apiVersion":"shop.example.com/v1","kind":"Crate","metadata":{"name":null}}`,
				"Content-Type", applyType).refused(400, "BadRequest", "the name of the object ("+name+" based on URL) was undeterminable")
		}
		s.do("PUT", cratePath+"/a", `{"metadata":{"name":"b"}}`).refused(400, "BadRequest", "the name of the object (b) does not match the name on the URL (a)")
	})
}

// kubectl's own tests look for the words in which kube-apiserver fails to apply a strategic merge patch.
func TestPATCH_15_StrategicPatchesOfTheWrongType(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "")
		for patch, words := range map[string]string{
			`{"metadata":{"labels":"x"}}`: "cannot restore map from string", `{"metadata":{"labels":["x"]}}`: "cannot restore map from slice",
			`{"metadata":{"finalizers":"x"}}`: "cannot restore slice from string", `{"metadata":{"finalizers":{"x":1}}}`: "cannot restore slice from map",
		} {
			s.do("PATCH", widgetPath+"/a", patch, "Content-Type", strategicType).refused(422, "Invalid", words)
			got := s.do("PATCH", widgetPath+"/a", patch, "Content-Type", mergeType)
			require.NotContains(t, got.refused(422, "Invalid", "must be of type").text("message"), "restore")
		}
		got := s.do("PATCH", widgetPath+"/a", `{"metadata":{"labels":{"x":1}}}`, "Content-Type", strategicType)
		require.NotContains(t, got.refused(422, "Invalid", "metadata.labels").text("message"), "restore")
	})
}

// The same object has the same bytes in every answer, whoever asks and however often, in each form
// that a client can ask for.
func TestGET_AnswersAreDeterministic(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		const path = "/api/v1/namespaces/many"
		labels := make([]string, 0, 50)
		for i := range 50 {
			labels = append(labels, fmt.Sprintf(`"label-%d":"%d"`, i*7919%50, i))
		}
		s.create("/api/v1/namespaces", `{"metadata":{"name":"many","labels":{`+strings.Join(labels, ",")+`},"annotations":{`+strings.Join(labels, ",")+`}}}`)
		for _, accept := range []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf", cborType} {
			one, list := s.raw("GET", path, "Accept", accept), s.raw("GET", "/api/v1/namespaces", "Accept", accept)
			for range 20 {
				require.Equal(t, one, s.raw("GET", path, "Accept", accept), accept)
				require.Equal(t, list, s.raw("GET", "/api/v1/namespaces", "Accept", accept), accept)
			}
		}
	}, withCBOR)
}

// The size of an object is the only limit of what it has many of.
func TestMETA_ManyLabelsAndFinalizers(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		const many = 5000
		var labels, finalizers []string
		for i := range many {
			labels = append(labels, fmt.Sprintf(`"label-%d":"x"`, i))
			finalizers = append(finalizers, fmt.Sprintf(`"example.dev/f%d"`, i))
		}
		s.create(widgetPath, `{"metadata":{"name":"a","labels":{`+strings.Join(labels, ",")+`},"annotations":{`+strings.Join(labels, ",")+`},"finalizers":[`+strings.Join(finalizers, ",")+`]}}`)
		got := s.get(widgetPath + "/a").is(200)
		require.Len(t, got.at("metadata", "labels"), many)
		require.Len(t, got.at("metadata", "finalizers"), many)
		s.patch(widgetPath+"/a", `{"metadata":{"labels":{"one":"more"}}}`).is(200)
		require.Len(t, s.get(widgetPath+"/a").is(200).at("metadata", "annotations"), many)
	})
}

// What a body says wrong by itself is told whatever is stored, and unknown fields are warned of even if the
// write then fails. A value of the wrong type is told alone: not all of the body has been read then.
func TestUPDATE_ABodyIsJudgedBeforeWhatIsStored(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "")
		const unknown = `{"metadata":{"name":"NAME","resourceVersion":"1"},"spec":{"size":1,"colour":"red"}}`
		put := func(name, body, query string) *answer {
			return s.do("PUT", widgetPath+"/"+name+query, strings.Replace(body, "NAME", name, 1))
		}
		warning := []string{`299 - "unknown field \"spec.colour\""`}
		for name, code := range map[string]int{"absent": 404, "a": 409} {
			require.Equal(t, warning, put(name, unknown, "").is(code).header.Values("Warning"), name)
			require.Empty(t, put(name, unknown, "?fieldValidation=Ignore").is(code).header.Values("Warning"), name)
			put(name, unknown, "?fieldValidation=Strict").refused(400, "BadRequest", "spec.colour")
			other := put(name, `{"metadata":{"name":"other"},"spec":{"colour":"red"}}`, "")
			require.Equal(t, warning, other.refused(400, "BadRequest", "does not match the name on the URL").header.Values("Warning"))
			put(name, `{"kind":"Other","metadata":{"name":"NAME"}}`, "").refused(400, "BadRequest", "Other")
			put(name, `{`, "").refused(400, "BadRequest", "")
			wrong := `{"metadata":{"name":"NAME","resourceVersion":"1"},"spec":{"size":"x","colour":"red"}}`
			for _, query := range []string{"", "?fieldValidation=Strict"} {
				require.Empty(t, put(name, wrong, query).refused(400, "BadRequest", "spec.size").header.Values("Warning"), name)
			}
		}
		for kind, body := range map[string]string{
			mergeType:     `{"metadata":{"resourceVersion":"1"},"spec":{"colour":"red"}}`,
			jsonPatchType: `[{"op":"add","path":"/metadata/resourceVersion","value":"1"},{"op":"add","path":"/spec/colour","value":"red"}]`,
		} {
			require.Equal(t, warning, s.do("PATCH", widgetPath+"/a", body, "Content-Type", kind).is(409).header.Values("Warning"), kind)
			require.Empty(t, s.do("PATCH", widgetPath+"/absent", body, "Content-Type", kind).is(404).header.Values("Warning"), kind)
		}
		got := s.do("PATCH", widgetPath+"/a", `{"spec":{"size":"x","colour":"red"}}`, "Content-Type", mergeType)
		require.Empty(t, got.refused(422, "Invalid", "spec.size").header.Values("Warning"))
	}, kindwright.Kubernetes{WrongTypeIsBadRequest: true})
}

// kube-apiserver's library for JSON patches adds what is to be replaced and is not there, and takes a value that
// is missing for null: patches rely on both. RFC 6902 allows neither.
func TestPATCH_06_LenientPatches(t *testing.T) {
	patches := map[string]string{
		"the end":     `[{"op":"add","path":"/metadata/finalizers","value":["a.b/c","a.b/d"]},{"op":"remove","path":"/metadata/finalizers/-1"}]`,
		"replace":     `[{"op":"replace","path":"/metadata/labels/new","value":"x"}]`,
		"of nothing":  `[{"op":"replace","path":"/spec","value":{"size":1}},{"op":"replace","path":"/spec/color","value":"red"}]`,
		"no value":    `[{"op":"add","path":"/metadata/labels/new"}]`,
		"a list":      `[{"op":"replace","path":"/metadata/finalizers","value":["example.com/f"]}]`,
		"test of nil": `[{"op":"test","path":"/metadata/annotations"}]`,
	}
	for name, body := range patches {
		onEach(t, func(t *testing.T, s *server) {
			s.widget("a", "l=1")
			s.do("PATCH", widgetPath+"/a", body, "Content-Type", jsonPatchType).is(200)
			for _, wrong := range []string{
				`[{"op":"replace","path":"/metadata/annotations/a","value":"x"}]`, `[{"op":"replace","path":"/metadata/labels/l/x","value":"x"}]`,
				`[{"op":"remove","path":"/metadata/annotations"}]`, `[{"op":"test","path":"/metadata/labels/l"}]`, `[{"op":"replace","path":"","value":7}]`,
			} {
				s.do("PATCH", widgetPath+"/a", wrong, "Content-Type", jsonPatchType).refused(422, "Invalid", "patch")
			}
		}, kindwright.Kubernetes{LenientPatches: true})
		if name == "of nothing" {
			continue // the first of its operations makes what the second replaces
		}
		onEach(t, func(t *testing.T, s *server) {
			s.widget("a", "l=1")
			require.Contains(t, []int{400, 422}, s.do("PATCH", widgetPath+"/a", body, "Content-Type", jsonPatchType).code, name)
		})
	}
}
