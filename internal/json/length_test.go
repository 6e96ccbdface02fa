package json_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/json"
)

func TestLengthIsThatOfWhatIsAppended(t *testing.T) {
	for _, text := range []string{
		`{}`, `[]`, `""`, `{"a":[],"b":{},"c":""}`, `[[],["x","yz"],{"a":"b"}]`,
		`{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:image":{}}}}}`,
	} {
		tree, err := json.DecodeTree([]byte(text), json.TreeOptions{})
		require.NoError(t, err)
		require.Equal(t, len(text), json.Length(tree), text)
	}
	for text, most := range map[string]int{`[1,-9223372036854775808]`: 21 * 2, `[true,null,false]`: 3, `1.5`: 20} {
		tree, err := json.DecodeTree([]byte(text), json.TreeOptions{})
		require.NoError(t, err)
		require.GreaterOrEqual(t, json.Length(tree), len(text), text)
		require.LessOrEqual(t, json.Length(tree), len(text)+most, text)
	}
	circle := map[string]any{}
	circle["a"], circle["b"] = circle, circle
	json.Length(circle) // ends
}
