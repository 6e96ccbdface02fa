package conformance

import (
	"testing"

	"github.com/stretchr/testify/require"
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
