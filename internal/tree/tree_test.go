package tree_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/tree"
)

type object = map[string]any

func sample() object {
	return object{
		"kind":     "K",
		"metadata": object{"name": "x", "uid": "u", "labels": object{"a": int64(1)}, "finalizers": []any{"f"}},
		"spec":     object{"on": true, "nothing": nil},
	}
}

// same tells whether two trees are one map, not just equal.
func same(a, b object) bool { return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer() }

func TestValuesAreFoundByPath(t *testing.T) {
	o := sample()
	v, ok := tree.Lookup(o, "spec", "nothing")
	require.True(t, ok, "null is a value")
	require.Nil(t, v)
	_, ok = tree.Lookup(o, "spec", "missing")
	require.False(t, ok)
	_, ok = tree.Lookup(o, "kind", "below")
	require.False(t, ok, "a path does not lead through a string")

	require.Equal(t, true, tree.At(o, "spec", "on"))
	require.Nil(t, tree.At(o, "metadata", "missing", "below"))
	require.Equal(t, "x", tree.Text(o, "metadata", "name"))
	require.Empty(t, tree.Text(o, "metadata"))
	require.Equal(t, object{"a": int64(1)}, tree.Map(o, "metadata", "labels"))
	require.Nil(t, tree.Map(o, "kind"))
	require.Equal(t, []any{"f"}, tree.List(o, "metadata", "finalizers"))
	require.Nil(t, tree.List(nil, "metadata", "finalizers"))
}

func TestSettingAValueCopiesTheMapsOnTheWay(t *testing.T) {
	o := sample()
	require.True(t, same(o, tree.With(o, "x", "metadata", "name")))
	require.True(t, same(o, tree.With(o, "K", "kind")))
	require.False(t, same(o, tree.With(o, tree.Map(o, "spec"), "spec")), "maps are not compared")

	got := tree.With(o, "y", "metadata", "name")
	require.Equal(t, "y", tree.Text(got, "metadata", "name"))
	require.True(t, same(tree.Map(o, "spec"), tree.Map(got, "spec")), "what is not on the way is shared")
	require.Equal(t, object{"n": nil}, tree.With(nil, nil, "n"))
	require.Equal(t, object{"n": object{"m": nil}}, tree.With(object{}, nil, "n", "m"))
	require.Equal(t, object{"n": object{"m": "v"}}, tree.With(object{"n": "text"}, "v", "n", "m"))
	require.Equal(t, sample(), o, "the argument is as before")
}

// Without and Prune differ in what becomes of a map that is empty afterwards.
func TestRemovingAValue(t *testing.T) {
	o := sample()
	for _, remove := range []func(object, ...string) object{tree.Without, tree.Prune} {
		require.True(t, same(o, remove(o, "missing")))
		require.True(t, same(o, remove(o, "metadata", "missing")))
		require.True(t, same(o, remove(o, "kind", "below")))
		got := remove(o, "metadata", "name")
		require.Equal(t, object{"uid": "u", "labels": object{"a": int64(1)}, "finalizers": []any{"f"}}, got["metadata"])
		require.NotContains(t, remove(o, "spec", "nothing")["spec"], "nothing", "null is a value")
		require.NotContains(t, remove(o, "kind"), "kind")
	}
	nested := object{"a": object{"b": object{"c": "v"}}, "z": int64(1)}
	require.Equal(t, object{"a": object{"b": object{}}, "z": int64(1)}, tree.Without(nested, "a", "b", "c"))
	require.Equal(t, object{"z": int64(1)}, tree.Prune(nested, "a", "b", "c"))
	require.Equal(t, object{"a": object{}}, tree.Prune(object{"a": object{}}, "a", "b"), "an empty map that was there stays")
	require.Equal(t, sample(), o, "the argument is as before")
}

func TestKeepingWhatAnotherTreeSays(t *testing.T) {
	o := sample()
	require.Equal(t, "y", tree.Text(tree.Keep(o, object{"metadata": object{"uid": "y"}}, "metadata", "uid"), "metadata", "uid"))
	require.NotContains(t, tree.Keep(o, nil, "metadata", "uid")["metadata"], "uid")
	require.True(t, same(o, tree.Keep(o, o, "metadata", "uid")))
	require.Equal(t, object{"spec": object{}}, tree.Keep(object{"spec": object{"a": "b"}}, object{}, "spec", "a"))
}

func TestMembersOfMetadataAreSetTogether(t *testing.T) {
	o, deep := sample(), object{"a": int64(1)}
	names := []string{"uid", "generation", "selfLink"}
	require.True(t, same(o, tree.WithMetadata(o, object{"uid": "u"}, names...)))
	require.True(t, same(o, tree.WithMetadata(o, object{"uid": "u", "name": "other"}, names...)), "what is not named stays")
	require.Equal(t, object{"name": "x", "labels": deep, "finalizers": []any{"f"}, "generation": int64(2)},
		tree.WithMetadata(o, object{"generation": int64(2)}, names...)["metadata"])
	require.Equal(t, object{"generation": int64(2)}, tree.WithMetadata(object{"kind": "K"}, object{"generation": int64(2)}, names...)["metadata"])
	require.Equal(t, object{}, tree.WithMetadata(object{}, nil, names...))
	require.Equal(t, object{"selfLink": "s"}, tree.WithMetadata(object{"metadata": object{"selfLink": deep}}, object{"selfLink": "s"}, names...)["metadata"])
	require.Equal(t, sample(), o, "the argument is as before")
}
