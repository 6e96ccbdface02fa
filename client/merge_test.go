package client

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/random"
)

// In these trees a member whose name begins with "u" is one that the struct does not know.

// known returns the part of a tree that the struct has fields for.
func known(tree any) any {
	switch tree := tree.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, v := range tree {
			if !strings.HasPrefix(name, "u") {
				out[name] = known(v)
			}
		}
		return out
	case []any:
		out := make([]any, len(tree))
		for i, v := range tree {
			out[i] = known(v)
		}
		return out
	}
	return tree
}

// unknown lists the paths that the struct has no fields for. List items go by their names.
func unknown(tree any, path string) (out []string) {
	switch tree := tree.(type) {
	case map[string]any:
		for name, v := range tree {
			p := path + "." + name
			if strings.HasPrefix(name, "u") {
				out = append(out, fmt.Sprintf("%s=%v", p, v))
				continue
			}
			out = append(out, unknown(v, p)...)
		}
	case []any:
		for _, v := range tree {
			out = append(out, unknown(v, path+"["+member(v, "name")+"]")...)
		}
	}
	return out
}

// trees draws an object. With named, the items of every list have names.
func trees(names []string, named bool) random.Generator[map[string]any] {
	scalar := random.OneOf(
		random.Just[any](nil), random.Bool().AsAny(),
		random.Range[int64](-3, 3).AsAny(), random.SampledFrom([]string{"", "x", "y"}).AsAny(),
	)
	var value func(depth int) random.Generator[any]
	object := func(depth int) random.Generator[map[string]any] {
		return random.MapOf(random.SampledFrom(names), value(depth-1), 4)
	}
	value = func(depth int) random.Generator[any] {
		if depth <= 0 {
			return scalar
		}
		list := random.SliceOf(value(depth-1), 0, 5).AsAny()
		if named {
			list = random.Map(random.SliceOf(object(depth-1), 0, 5), func(l []map[string]any) any {
				out := make([]any, len(l))
				for i, item := range l {
					item["name"] = fmt.Sprint("n", i)
					out[i] = item
				}
				return out
			})
		}
		return random.OneOf(scalar, list, object(depth).AsAny())
	}
	return object(3)
}

func TestUPDATE_04_TheServerSeesWhatTheCallerSet(t *testing.T) {
	random.Check(t, func(t *random.T) {
		object := trees([]string{"a", "b", "name", "u1", "u2"}, false).Draw(t, "object")
		after := trees([]string{"a", "b", "name"}, false).Draw(t, "after")
		original := json.Clone(object)
		merged := merge[map[string]any](object, known(object).(map[string]any), after)
		if !json.Equal(known(merged), after) {
			t.Fatalf("the caller set %v\nand the server would be sent %v", after, merged)
		}
		if !json.Equal(original, object) {
			t.Fatalf("the object was changed in place")
		}
	})
}

func TestUPDATE_04_NoUnknownFieldIsLostWhereKnownOnesChange(t *testing.T) {
	random.Check(t, func(t *random.T) {
		object := trees([]string{"a", "b", "c", "u1", "u2"}, true).Draw(t, "object")
		before := known(object).(map[string]any)
		after := scramble(t, before).(map[string]any)
		merged := merge[map[string]any](object, before, after)
		if !json.Equal(known(merged), after) {
			t.Fatalf("the caller set %v\nand the server would be sent %v", after, merged)
		}
		require.ElementsMatch(t, unknown(object, ""), unknown(merged, ""))
	})
}

// scramble changes values, adds members and reorders lists, but removes nothing.
func scramble(t *random.T, tree any) any {
	switch tree := tree.(type) {
	case map[string]any:
		out := map[string]any{"new": random.Number[int64]().Draw(t, "new")}
		for _, name := range slices.Sorted(maps.Keys(tree)) { // the same draws in each run
			v := tree[name]
			if out[name] = v; name != "name" {
				out[name] = scramble(t, v)
			}
		}
		return out
	case []any:
		out := make([]any, len(tree))
		for i, v := range tree {
			out[i] = scramble(t, v)
		}
		return random.Permutation(out).Draw(t, "order")
	}
	return random.SampledFrom([]any{tree, int64(7), "z", nil}).Draw(t, "value")
}
