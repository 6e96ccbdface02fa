package json

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKeptDecodesAlike(t *testing.T) {
	var kept Kept
	for i := range 3000 { // far more than there is room for
		document := fmt.Sprintf(`{"metadata":{"managedFields":[{"fieldsV1":{"f:spec":{"f:a%d":{}}},"manager":"m"}]},"fieldsV1":["%s\u00e9",%d]}`, i%1500, strings.Repeat("x", 60), i%7)
		want, err := DecodeTree([]byte(document), TreeOptions{})
		require.NoError(t, err)
		data := []byte(document)
		got, err := DecodeTree(data, TreeOptions{Kept: &kept})
		require.NoError(t, err)
		clear(data) // nothing of it is left in the trees
		require.Equal(t, want, got)
		require.LessOrEqual(t, kept.bytes, maxKeptBytes)
	}
	require.NotEmpty(t, kept.trees)
}

func TestKeptRefusesWhatIsRefused(t *testing.T) {
	var kept Kept
	for _, document := range []string{
		`{"fieldsV1":{"a":1,"a":2}}`, `{"fieldsV1":{"a":}}`, `{"fieldsV1":`, `{"fieldsV1":"\ud800"}`, `{"fieldsV1":99999999999999999999}`,
		`{"fieldsV1":` + strings.Repeat("[", DefaultMaxDepth) + strings.Repeat("]", DefaultMaxDepth) + `}`,
	} {
		_, want := DecodeTree([]byte(document), TreeOptions{})
		require.Error(t, want)
		for range 2 {
			_, got := DecodeTree([]byte(document), TreeOptions{Kept: &kept})
			require.Error(t, got, document)
		}
	}
	require.Empty(t, kept.trees)
}

// What outlives a document has no memory of it, and what does not shares it.
func TestSharedTexts(t *testing.T) {
	var kept Kept
	long := strings.Repeat("y", 100)
	data := []byte(`{"a":"` + long + `","fieldsV1":"` + long + `"}`)
	v, err := DecodeTree(data, TreeOptions{Shared: true, Kept: &kept})
	require.NoError(t, err)
	for i := range data {
		if data[i] == 'y' {
			data[i] = 'z'
		}
	}
	tree := v.(map[string]any)
	require.Equal(t, strings.Repeat("z", 100), tree["a"])
	require.Equal(t, long, tree["fieldsV1"])
}

func TestAppendStored(t *testing.T) {
	tree := map[string]any{
		"metadata":        map[string]any{"name": "a", "resourceVersion": "4", "x": map[string]any{"resourceVersion": "5"}},
		"resourceVersion": "6", "spec": map[string]any{"resourceVersion": "7", "metadata": map[string]any{"resourceVersion": "8"}},
	}
	got, err := AppendStored(nil, tree)
	require.NoError(t, err)
	require.Equal(t, `{"metadata":{"name":"a","x":{"resourceVersion":"5"}},"resourceVersion":"6",`+
		`"spec":{"metadata":{"resourceVersion":"8"},"resourceVersion":"7"}}`, string(got))
	whole, err := AppendTree(nil, tree)
	require.NoError(t, err)
	require.Contains(t, string(whole), `"resourceVersion":"4"`)
}
