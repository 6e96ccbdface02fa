package cel

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/stretchr/testify/require"
)

// Values of trees answer as those of the language do, whatever they are asked.
func TestTreesAnswerAsTheLanguageDoes(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 7))
	for range 300 {
		tree, other := randomTree(random, 3), randomTree(random, 3)
		ours, theirs := treeAdapter{}.NativeToValue(tree), types.DefaultTypeAdapter.NativeToValue(tree)
		for _, with := range []any{tree, other} {
			a, b := treeAdapter{}.NativeToValue(with), types.DefaultTypeAdapter.NativeToValue(with)
			require.Equal(t, said(theirs.Equal(b)), said(ours.Equal(a)), "%v and %v", tree, with)
			require.Equal(t, said(theirs.Equal(b)), said(theirs.Equal(a)), "%v and ours of %v", tree, with)
			require.Equal(t, said(theirs.Equal(b)), said(ours.Equal(b)), "ours of %v and %v", tree, with)
			if list, ok := theirs.(traits.Lister); ok {
				require.Equal(t, said(list.Contains(b)), said(ours.(traits.Lister).Contains(a)))
				require.Equal(t, said(list.Add(b)), said(ours.(traits.Lister).Add(a)))
			}
		}
		require.Equal(t, theirs.Type(), ours.Type())
		require.Equal(t, types.Format(theirs), types.Format(ours))
		require.Equal(t, theirs.Value(), ours.Value())
		for _, to := range []ref.Type{types.MapType, types.ListType, types.TypeType, types.StringType} {
			require.Equal(t, said(theirs.ConvertToType(to)), said(ours.ConvertToType(to)), "%v to %v", tree, to)
		}
		for _, to := range []reflect.Type{reflect.TypeFor[map[string]any](), reflect.TypeFor[[]any](), reflect.TypeFor[int]()} {
			want, failed := theirs.ConvertToNative(to)
			have, err := ours.ConvertToNative(to)
			require.Equal(t, fmt.Sprint(failed), fmt.Sprint(err))
			require.Equal(t, want, have)
		}
		sameParts(t, theirs, ours)
	}
	for _, tree := range []any{map[string]any{"a": []any{"b", int64(1)}}, []any{map[string]any{"a": nil}}} {
		require.Equal(t, fmt.Sprint(types.DefaultTypeAdapter.NativeToValue(tree)), fmt.Sprint(treeAdapter{}.NativeToValue(tree)))
	}
}

// sameParts compares what containers answer of their parts.
func sameParts(t *testing.T, theirs, ours ref.Val) {
	t.Helper()
	container, ok := theirs.(traits.Container)
	if !ok {
		require.IsType(t, theirs, ours)
		return
	}
	require.Equal(t, theirs.(traits.Zeroer).IsZeroValue(), ours.(traits.Zeroer).IsZeroValue())
	require.Equal(t, theirs.(traits.Sizer).Size(), ours.(traits.Sizer).Size())
	_, isMap := theirs.(traits.Mapper)
	for _, key := range []ref.Val{
		types.String("a"), types.String("z"), types.Int(0), types.Int(1), types.Int(-1), types.Int(9), types.Uint(0),
		types.Double(1), types.Double(0.5), types.True, types.NullValue, types.NewErr("no"),
		types.NewStringInterfaceMap(types.DefaultTypeAdapter, map[string]any{"a": "b"}),
	} {
		require.Equal(t, said(theirs.(traits.Indexer).Get(key)), said(ours.(traits.Indexer).Get(key)), "%v of %v", key, theirs)
		if isMap {
			require.Equal(t, said(container.Contains(key)), said(ours.(traits.Container).Contains(key)))
			want, found := theirs.(traits.Mapper).Find(key)
			have, ok := ours.(traits.Mapper).Find(key)
			require.Equal(t, found, ok)
			require.Equal(t, said(want), said(have))
		}
	}
	ourParts, theirParts := partsOf(ours), partsOf(theirs)
	require.Len(t, ourParts, len(theirParts))
	for key, part := range theirParts {
		sameParts(t, part, ourParts[key])
	}
	require.Equal(t, folded(theirs), folded(ours))
}

// partsOf iterates over a container.
func partsOf(v ref.Val) map[string]ref.Val {
	parts := map[string]ref.Val{}
	it := v.(traits.Iterable).Iterator()
	for it.HasNext() == types.True {
		part := it.Next()
		if m, ok := v.(traits.Mapper); ok {
			parts[said(part)] = m.Get(part)
			continue
		}
		parts[fmt.Sprint(len(parts))] = part
	}
	if it.Next() != nil {
		panic("the iterator goes on behind the end")
	}
	return parts
}

// fold collects what a loop over two variables sees.
type fold map[string]string

func (f fold) FoldEntry(key, value any) bool {
	f[fmt.Sprint(key)] = said(treeAdapter{}.NativeToValue(value))
	return true
}

func folded(v ref.Val) fold {
	f := fold{}
	v.(traits.Foldable).Fold(f)
	return f
}

// said writes a value. The types of values are part of it.
func said(v ref.Val) string {
	if v == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s %s", v.Type().TypeName(), types.Format(v))
}

func randomTree(r *rand.Rand, depth int) any {
	scalars := []any{nil, true, int64(1), int64(7), 1.5, "a", "", "text"}
	kind := r.IntN(4)
	switch {
	case depth == 0 || kind == 0:
		return scalars[r.IntN(len(scalars))]
	case kind == 1:
		items := make([]any, r.IntN(3))
		for i := range items {
			items[i] = randomTree(r, depth-1)
		}
		return items
	}
	object := map[string]any{}
	for _, name := range []string{"a", "b", "c"}[:r.IntN(4)] {
		object[name] = randomTree(r, depth-1)
	}
	return object
}
