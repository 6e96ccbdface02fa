package kinds

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/random"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
)

// fill sets some fields of a struct and leaves others empty. A pointer may point to an empty value.
func fill(t *random.T, v reflect.Value) {
	when := time.Unix(random.Range[int64](-1e10, 1e10).Draw(t, "seconds"), random.Range[int64](0, 999999).Draw(t, "micros")*1000).UTC()
	switch v.Interface().(type) {
	case meta.TypeMeta, meta.ObjectMeta:
		return // identical in every form
	case meta.Time:
		when = when.Truncate(time.Second)
	}
	if !random.Bool().Draw(t, "set") {
		return
	}
	switch {
	case v.Type() == reflect.TypeFor[meta.Time]():
		v.Set(reflect.ValueOf(meta.NewTime(when)))
	case v.Type() == reflect.TypeFor[meta.MicroTime]():
		v.Set(reflect.ValueOf(meta.NewMicroTime(when)))
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case v.Kind() == reflect.String:
		v.SetString(random.String().Draw(t, "text"))
	default:
		v.SetInt(random.Range[int64](-3, 3).Draw(t, "number"))
	}
}

// tree returns the object as the engine sees it after pruning and defaulting.
func tree(t require.TestingT, schema *openapi.Schema, obj any) registry.Tree {
	v, err := json.TreeOf(obj)
	require.NoError(t, err)
	out, problems := schema.Canonical(v.(map[string]any))
	require.Empty(t, problems)
	return resetEvent(nil, out)
}

func TestEVT_36_ConversionsLoseNothing(t *testing.T) {
	b, err := Events().Define(registry.Env{GroupDomain: "k8s.io"})
	require.NoError(t, err)
	stored, core := b.Resources[0], b.Resources[1]
	random.Check(t, func(t *random.T) {
		var e Event
		fill(t, reflect.ValueOf(&e).Elem())
		there, err := converted(core.Stored.From, tree(t, stored.Schema, e))
		require.NoError(t, err)
		back, err := converted(core.Stored.To, there)
		require.NoError(t, err)
		back, problems := stored.Schema.Canonical(back)
		require.Empty(t, problems)
		require.Equal(t, without(tree(t, stored.Schema, e), "metadata"), without(back, "metadata"))
	})
	random.Check(t, func(t *random.T) {
		var e CoreEvent
		fill(t, reflect.ValueOf(&e).Elem())
		there, err := converted(core.Stored.To, tree(t, core.Schema, e))
		require.NoError(t, err)
		back, err := converted(core.Stored.From, there)
		require.NoError(t, err)
		require.Equal(t, without(tree(t, core.Schema, e), "metadata"), without(tree(t, core.Schema, back), "metadata"))
	})
}

func without(t registry.Tree, name string) registry.Tree {
	delete(t, name)
	return t
}

func converted(convert func(context.Context, []registry.Tree) ([]registry.Tree, error), object registry.Tree) (registry.Tree, error) {
	out, err := convert(context.Background(), []registry.Tree{object})
	if err != nil {
		return nil, err
	}
	return out[0], nil
}
