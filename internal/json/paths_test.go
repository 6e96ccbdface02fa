package json

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// lookup computes the result of ScanObject from the decoded object.
func lookup(tree any, path string) string {
	for name := range strings.SplitSeq(path, ".") {
		object, _ := tree.(map[string]any)
		tree = object[name]
	}
	switch v := tree.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

func TestScanObjectReadsWhatDecodingReads(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var value func(depth int) any
	value = func(depth int) any {
		switch n := random.IntN(9); {
		case n < 3 && depth > 0:
			out := map[string]any{}
			for range random.IntN(4) {
				out[string(rune('a'+random.IntN(4)))] = value(depth - 1)
			}
			return out
		case n == 3 && depth > 0:
			return []any{value(depth - 1)}
		case n == 4:
			return random.Int64() - random.Int64()
		case n == 5:
			return random.Float64()
		case n == 6:
			return random.IntN(2) == 0
		case n == 7:
			return nil
		}
		return fmt.Sprintf("text \"%c\"\n%c", rune(random.IntN(0xd7ff)), rune('a'+random.IntN(26)))
	}
	var names []string
	for _, a := range "abcd" {
		names = append(names, string(a))
		for _, b := range "abcd" {
			names = append(names, string(a)+"."+string(b), string(a)+"."+string(b)+".a")
		}
	}
	var paths [][]string
	for _, name := range names {
		paths = append(paths, strings.Split(name, "."))
	}
	wanted := NewPaths(paths...)
	for range 3000 {
		tree := map[string]any{"metadata": map[string]any{"name": "n", "uid": "u"}}
		for _, name := range "abcd" {
			tree[string(name)] = value(3)
		}
		data, err := AppendTree(nil, tree)
		require.NoError(t, err)
		found, values, err := ScanObject(data, wanted)
		require.NoError(t, err, "%s", data)
		require.Equal(t, "n", found.Name)
		decoded, err := DecodeTree(data, TreeOptions{})
		require.NoError(t, err)
		for i, name := range names {
			require.Equal(t, lookup(decoded, name), values[i], "%s of %s", name, data)
		}
	}
}

func TestScanObjectOfWhatWeDidNotWrite(t *testing.T) {
	paths := NewPaths([]string{"spec", "size"})
	for _, data := range []string{
		``, `[]`, `{"metadata":{"uid":"u"},"spec":{"size":1,"a":2}}`, `{"metadata":{"uid":"u"},"spec":{"size":tru}}`,
		`{"metadata":{"uid":"u"},"spec":{"size":"\ud800"}}`, `{"metadata":{"uid":"u"},"spec":{"size":01}}`, `{"metadata":{"uid":"u"},"spec":{"size":1}`,
		`{"spec":{"size":1}}`,
	} {
		_, _, err := ScanObject([]byte(data), paths)
		require.Error(t, err, data)
	}
}
