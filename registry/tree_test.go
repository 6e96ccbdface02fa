package registry

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Trees are shared: what changes is copied, what does not is handed on.
func TestTreesAreCopiedWhereTheyChange(t *testing.T) {
	deep := map[string]any{"a": int64(1)}
	make1 := func() Tree {
		return Tree{"kind": "K", "metadata": map[string]any{"name": "x", "uid": "u", "labels": deep}, "spec": deep}
	}
	start := make1()
	same := func(a, b Tree) bool { a["mark"] = true; _, ok := b["mark"]; delete(a, "mark"); return ok }

	require.True(t, same(start, with(start, "x", "metadata", "name")))
	require.True(t, same(start, with(start, "K", "kind")))
	require.False(t, same(start, with(start, deep, "spec")), "maps are not looked into")
	require.Equal(t, "y", at(with(start, "y", "metadata", "name"), "metadata", "name"))
	require.Equal(t, Tree{"n": nil}, with(Tree{}, nil, "n"))
	require.Equal(t, Tree{"n": Tree{"m": nil}}, with(Tree{}, nil, "n", "m"))

	names := []string{"uid", "generation", "selfLink"}
	require.True(t, same(start, withMetadata(start, map[string]any{"uid": "u"}, names...)))
	require.True(t, same(start, withMetadata(start, map[string]any{"uid": "u", "name": "other"}, names...)), "what is not named stays")
	got := withMetadata(start, map[string]any{"generation": int64(2)}, names...)
	require.Equal(t, map[string]any{"name": "x", "labels": deep, "generation": int64(2)}, got["metadata"])
	require.Equal(t, map[string]any{"generation": int64(2)}, withMetadata(Tree{"kind": "K"}, map[string]any{"generation": int64(2)}, names...)["metadata"])
	require.Equal(t, Tree{}, withMetadata(Tree{}, nil, names...))
	require.Equal(t, map[string]any{"selfLink": "s"}, withMetadata(Tree{"metadata": map[string]any{"selfLink": deep}}, map[string]any{"selfLink": "s"}, names...)["metadata"])
	require.Equal(t, make1(), start)
}
