package interop

import (
	"testing"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/kindwright/kindwright/openapi"
)

// The parts of other servers are the same message as their JSON, as gnostic reads both.
func TestOAPI_01_PartsOfOtherServersAreTheSameMessage(t *testing.T) {
	const document = `{"swagger":"2.0","parameters":{"p":{"name":"pretty","in":"query","type":"string","uniqueItems":true,"description":"d"}},
	"paths":{"/apis/a.dev/v1/as/{name}":{"parameters":[{"name":"name","in":"path","required":true,"type":"string","uniqueItems":true},{"$ref":"#/parameters/p"}],
	"get":{"operationId":"readA","description":"reads","tags":["a"],"consumes":["*/*"],"produces":["application/json"],"responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/A"}},"401":{"description":"Unauthorized"}}},
	"patch":{"x-kubernetes-action":"patch","parameters":[{"name":"body","in":"body","required":true,"schema":{"$ref":"#/definitions/A"}}],"responses":{"200":{"description":"OK","schema":{"type":"string"}}}}}},
	"definitions":{"A":{"type":"object","title":"t","description":"d","required":["b"],"properties":{
		"b":{"type":"string","format":"byte","pattern":"^a","maxLength":3,"minLength":1,"enum":["a","b"],"default":"a","readOnly":true},
		"c":{"type":"array","items":{"$ref":"#/definitions/A"},"maxItems":4,"minItems":2,"uniqueItems":true,"x-kubernetes-list-type":"set"},
		"d":{"type":"object","additionalProperties":{"type":"number","maximum":4.5,"minimum":-1,"exclusiveMaximum":true,"exclusiveMinimum":true,"multipleOf":0.5},"minProperties":1,"maxProperties":9},
		"e":{"allOf":[{"$ref":"#/definitions/B"},{"type":"object"}],"example":{"x":1},"additionalProperties":false}},
		"x-kubernetes-group-version-kind":[{"group":"a.dev","kind":"A","version":"v1"}]},"B":{}}}`
	part, err := openapi.ParseSwaggerPart([]byte(document), "/apis/a.dev/v1")
	require.NoError(t, err)
	s := openapi.Swagger{Others: []*openapi.SwaggerPart{part}}
	text, err := s.JSON()
	require.NoError(t, err)
	want, err := openapi_v2.ParseDocument(text)
	require.NoError(t, err, "gnostic is strict: it knows every keyword of v2, and takes no other")
	data, err := s.Protobuf()
	require.NoError(t, err)
	got := &openapi_v2.Document{}
	require.NoError(t, proto.Unmarshal(data, got))
	require.Empty(t, unknownFields(got.ProtoReflect()))
	plainAny(t, got.ProtoReflect())
	plainAny(t, want.ProtoReflect())
	if !proto.Equal(want, got) {
		requireSameLines(t, prototext.Format(want), prototext.Format(got))
	}
	require.Len(t, got.Paths.Path, 1)
}
