package patch_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/patch"
)

func TestPOL_05_Operations(t *testing.T) {
	original := map[string]any{"a": map[string]any{"list": []any{int64(1)}, "n": int64(1) << 60}}
	got, err := patch.Operations(original, []patch.Operation{
		{Op: "test", Path: "/a/list/0", Value: int64(1)},
		{Op: "add", Path: "/a/list/-", Value: map[string]any{"x": nil}},
		{Op: "copy", From: "/a/n", Path: "/b"},
		{Op: "remove", Path: "/a/n"},
		{Op: "move", From: "/b", Path: "/c~1d"},
	})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"a": map[string]any{"list": []any{int64(1), map[string]any{"x": nil}}}, "c/d": int64(1) << 60}, got)
	require.Equal(t, map[string]any{"a": map[string]any{"list": []any{int64(1)}, "n": int64(1) << 60}}, original, "the original is not modified")

	// POL-05: a replace adds what an object does not have, as in kube-apiserver.
	got, err = patch.Operations(original, []patch.Operation{
		{Op: "replace", Path: "/b", Value: int64(1)},
		{Op: "replace", Path: "/0", Value: int64(2)},
		{Op: "replace", Path: "/a/list/0", Value: int64(4)},
		{Op: "remove", Path: "/a/n"},
		{Op: "replace", Path: "/a/n", Value: int64(5)},
		{Op: "add", Path: "/c", Value: map[string]any{}},
		{Op: "replace", Path: "/c/d", Value: int64(6)},
	})
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"a": map[string]any{"list": []any{int64(4)}, "n": int64(5)}, "b": int64(1), "0": int64(2), "c": map[string]any{"d": int64(6)},
	}, got)

	for _, c := range []struct {
		operation patch.Operation
		want      string
	}{
		{patch.Operation{Op: "replace", Path: "/a/list/-", Value: int64(2)}, "replace operation does not apply: doc is missing key: /a/list/-: missing value"},
		{patch.Operation{Op: "remove", Path: "/nope"}, "/nope"},
		{patch.Operation{Op: "invalid", Path: "/a"}, `unknown operation "invalid"`},
		{patch.Operation{Op: "add", Path: "a"}, "is not a JSON pointer"},
		{patch.Operation{Op: "replace", Path: ""}, "the whole object can only be replaced by an object"},
		{patch.Operation{Op: "add", Path: "/a/list/01", Value: true}, "an index has no sign and no leading zero"},
		{patch.Operation{Op: "add", Path: "/" + strings.Repeat("a/", 2000)}, ""},
	} {
		_, err := patch.Operations(original, []patch.Operation{c.operation})
		require.ErrorContains(t, err, c.want, c.operation)
		require.NotErrorIs(t, err, patch.ErrTest)
	}
	_, err = patch.Operations(original, []patch.Operation{{Op: "test", Path: "/a/list", Value: "x"}})
	require.ErrorIs(t, err, patch.ErrTest)
	_, err = patch.Operations(original, make([]patch.Operation, patch.MaxOperations+1))
	require.ErrorContains(t, err, "The allowed maximum operations in a JSON patch is 10000")
}
