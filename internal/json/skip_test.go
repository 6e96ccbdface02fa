package json_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/random"
)

func TestSkipValueEndsWhereTheValueEnds(t *testing.T) {
	random.Check(t, func(t *random.T) {
		value, err := json.AppendTree(nil, trees(3).Draw(t, "value"))
		require.NoError(t, err)
		if random.Bool().Draw(t, "indented") {
			value, err = json.Indent(nil, value)
			require.NoError(t, err)
		}
		for _, after := range []string{",", "]", "}", " ", "\n", `,"a":1}`} {
			end, ok := json.SkipValue([]byte("[1,"+string(value)+after), len("[1,"))
			require.True(t, ok, "%s", value)
			require.Equal(t, len("[1,")+len(value), end, "%s", value)
		}
	})
}

func TestSkipValueNeedsAnEnd(t *testing.T) {
	for _, text := range []string{``, `"`, `"a\"`, `"a\\\"`, `{`, `{"a"`, `{"a":[1]`, `[{}`, `1`, `,`, `]`, `}`} {
		end, ok := json.SkipValue([]byte(text), 0)
		require.False(t, ok, text)
		require.LessOrEqual(t, end, len(text))
	}
}

func FuzzSkipValue(f *testing.F) {
	f.Add([]byte(`{"a":["\"",1]},2`), 0)
	f.Fuzz(func(t *testing.T, data []byte, at int) {
		if at < 0 || at > len(data) {
			return
		}
		end, _ := json.SkipValue(data, at)
		require.True(t, at <= end && end <= len(data))
	})
}
