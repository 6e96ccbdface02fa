package openapi_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/openapi"
)

// A key whose value is null is a key with an empty text, as Go decodes it into a map of texts. So a
// manifest with `data: {key:}` keeps the key.
func TestCREATE_CanonicalKeepsKeysOfMapsOfTexts(t *testing.T) {
	type inner struct{ Name string }
	type sample struct {
		Texts map[string]string `json:"texts,omitempty"`
		Bytes map[string][]byte `json:"bytes,omitempty"`
		Inner map[string]inner  `json:"inner,omitempty"`
		Text  string            `json:"text,omitempty"`
	}
	schema, err := openapi.FromType(reflect.TypeFor[sample]())
	require.NoError(t, err)
	sent := map[string]any{
		"texts": map[string]any{"a": nil, "b": "x"}, "bytes": map[string]any{"a": nil},
		"inner": map[string]any{"a": nil}, "text": nil,
	}
	got, problems := schema.Canonical(sent)
	assert.Empty(t, problems)
	assert.Equal(t, map[string]any{
		"texts": map[string]any{"a": "", "b": "x"}, "bytes": map[string]any{"a": ""}, "inner": map[string]any{},
	}, got)
	again, _ := schema.Canonical(got)
	assert.Equal(t, got, again)
}
