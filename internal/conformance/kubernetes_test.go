package conformance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
)

// Kubernetes' own test suite asks for discovery documents with a slash at the end.
func TestDISC_SlashAtTheEnd(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		for _, path := range []string{"/api", "/api/v1", "/apis", "/apis/coordination.k8s.io", "/apis/coordination.k8s.io/v1"} {
			require.Equal(t, s.get(path).is(200).text("kind"), s.get(path+"/").is(200).text("kind"), path)
		}
		s.get("/apis/none/").refused(404, "NotFound", "")
		s.get("/version/").refused(404, "NotFound", "")
		s.do("POST", "/apis/", "{}").refused(405, "MethodNotAllowed", "")
		s.get(widgetPath+"/").refused(404, "NotFound", "")
	})
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
