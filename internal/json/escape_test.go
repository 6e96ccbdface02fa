package json_test

import (
	stdjson "encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/json"
)

func TestEscapeHTMLIsThatOfEncodingJSON(t *testing.T) {
	for _, text := range []string{"", "plain", "<", "a > b", "&&", "\u2028", "x\u2029y", "ä<\u2028>&\u2029ö"} {
		want, err := stdjson.Marshal(text)
		require.NoError(t, err)
		require.Equal(t, string(want), json.EscapeHTML(string(json.AppendString(nil, text))))
	}
}
