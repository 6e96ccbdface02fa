package typed

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/kindwright/kindwright/internal/json"
)

// Decode makes a *T of a tree.
func Decode[T any](t map[string]any) (*T, error) {
	obj := new(T)
	if err := json.FromTree(t, obj); err != nil {
		return nil, fmt.Errorf("decode into %T: %w", obj, err)
	}
	return obj, nil
}

// Optional is Decode for a tree that may be missing: nil becomes nil.
func Optional[T any](t map[string]any) (*T, error) {
	if t == nil {
		return nil, nil
	}
	return Decode[T](t)
}

// Encode makes a tree of a *T.
func Encode[T any](obj *T) (map[string]any, error) {
	v, err := json.TreeOf(obj)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", obj, err)
	}
	t, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("encode %T: it is not a JSON object", obj)
	}
	return t, nil
}

// Change lets change work on the typed view of t. It returns t with what change changed and only that:
// values that T spells differently, or does not know, stay as they are (design rule 7).
func Change[T any](t map[string]any, change func(obj *T) error) (map[string]any, error) {
	out, _, err := Changed(t, change)
	return out, err
}

// Changed is Change; changed reports whether anything in the typed view is different.
func Changed[T any](t map[string]any, change func(obj *T) error) (out map[string]any, changed bool, err error) {
	obj, err := Decode[T](t)
	if err != nil {
		return nil, false, err
	}
	owners := ownersOf(reflect.ValueOf(obj).Elem())
	owners.hide()
	before, err := Encode(obj)
	owners.show()
	if err != nil {
		return nil, false, err
	}
	if err := change(obj); err != nil {
		return nil, false, err
	}
	same := owners.hideUnchanged()
	if !same {
		if before, err = again[T](t); err != nil {
			return nil, false, err
		}
	}
	after, err := Encode(obj)
	if same {
		owners.show() // change may have kept the object
	}
	switch {
	case err != nil:
		return nil, false, err
	case json.Equal(before, after):
		return t, false, nil
	}
	return carryOver(t, before, after), true, nil
}

// again encodes what t is decoded into.
func again[T any](t map[string]any) (map[string]any, error) {
	obj, err := Decode[T](t)
	if err != nil {
		return nil, err
	}
	return Encode(obj)
}

// carryOver applies the difference between before and after to t. It compares maps member by member. Any
// other value that differs replaces the value of t.
func carryOver(t, before, after map[string]any) map[string]any {
	if json.Equal(before, after) {
		return t
	}
	out := maps.Clone(t)
	if out == nil {
		out = map[string]any{}
	}
	for name := range before {
		if _, still := after[name]; !still {
			delete(out, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		a, b := after[name], before[name]
		if _, had := before[name]; had && json.Equal(a, b) {
			continue
		}
		am, aIsMap := a.(map[string]any)
		bm, bIsMap := b.(map[string]any)
		tm, tIsMap := t[name].(map[string]any)
		if aIsMap && bIsMap && tIsMap {
			out[name] = carryOver(tm, bm, am)
			continue
		}
		out[name] = a
	}
	return out
}
