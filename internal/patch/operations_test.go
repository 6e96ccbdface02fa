package patch_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/patch"
	"github.com/kindwright/kindwright/status"
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

func TestPATCH_06_Lenient(t *testing.T) {
	object := func() map[string]any {
		return map[string]any{"l": []any{"a", "b", "c"}, "m": map[string]any{"-1": "x"}}
	}
	for body, want := range map[string]map[string]any{
		`[{"op":"replace","path":"/l/-1","value":"z"},{"op":"replace","path":"/n","value":1}]`:     {"l": []any{"a", "b", "z"}, "m": object()["m"], "n": int64(1)},
		`[{"op":"remove","path":"/l/-3"},{"op":"add","path":"/l/-1","value":"z"}]`:                 {"l": []any{"b", "c", "z"}, "m": object()["m"]},
		`[{"op":"test","path":"/l/-2","value":"b"},{"op":"replace","path":"/m/-2","value":"y"}]`:   {"l": object()["l"], "m": map[string]any{"-1": "x", "-2": "y"}},
		`[{"op":"replace","path":"/m"},{"op":"add","path":"/n"},{"op":"test","path":"/o"}]`:        {"l": object()["l"], "m": nil, "n": nil},
		`[{"op":"move","from":"/l/-1","path":"/l/0"},{"op":"copy","from":"/l/-1","path":"/last"}]`: {"l": []any{"c", "a", "b"}, "m": object()["m"], "last": "b"},
	} {
		got, err := patch.JSON(object(), []byte(body), patch.Options{Lenient: true})
		require.NoError(t, err, body)
		require.Equal(t, want, got, body)
	}
	for body, code := range map[string]int{
		`[{"op":"replace","path":"/l/-4","value":"z"}]`: 422, `[{"op":"remove","path":"/l/-4"}]`: 422, `[{"op":"add","path":"/l/-5","value":1}]`: 422,
		`[{"op":"replace","path":"/l/-01","value":1}]`: 422, `[{"op":"replace","path":"/l/+1","value":1}]`: 422, `[{"op":"test","path":"/l/-9"}]`: 422,
		`[{"op":"remove","path":"/l/-99999999999999999999"}]`: 422, `[{"op":"replace","path":"/a/b","value":1}]`: 422,
		`[{"op":"twist","path":"/l"}]`: 422, `[{"op":"add","value":1}]`: 422, `[{"path":"/l"}]`: 422, `[{"op":"copy","path":"/l"}]`: 422,
		`[{"op":1,"path":"/l"}]`: 400, `[{"op":"add","path":7}]`: 400, `[{"op":"move","path":"/l","from":[]}]`: 400, `[7]`: 400, `{}`: 400,
	} {
		_, err := patch.JSON(object(), []byte(body), patch.Options{Lenient: true})
		require.Equal(t, code, status.CodeOf(err), "%s: %v", body, err)
		_, err = patch.JSON(object(), []byte(body), patch.Options{})
		require.Contains(t, []int{400, 422}, status.CodeOf(err), "%s: %v", body, err)
	}
}
