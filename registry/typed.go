package registry

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// decodeTyped makes a *T of a tree.
func decodeTyped[T any](t Tree) (*T, error) {
	obj := new(T)
	if err := json.FromTree(t, obj); err != nil {
		return nil, fmt.Errorf("decode into %T: %w", obj, err)
	}
	return obj, nil
}

func encodeTyped[T any](obj *T) (Tree, error) {
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

// typed makes a *T of a tree for a validation hook. A tree that its schema accepts and T cannot hold is reported as an
// error of the whole object, so that it is refused rather than passed unseen.
func typed[T any](t Tree, f *status.Fields) *T {
	obj, err := decodeTyped[T](t)
	if err != nil {
		f.Add(status.FieldError{Type: meta.CauseInternalError, Field: "<root>", Detail: "the object cannot be read as its Go type"})
		return nil
	}
	return obj
}

// mutateTyped is changeTyped for a function that cannot fail.
func mutateTyped[T any](ctx context.Context, t Tree, hook func(context.Context, *T)) (Tree, error) {
	return changeTyped(t, func(obj *T) error { hook(ctx, obj); return nil })
}

// carryOver applies to t the difference between before and after. Maps are compared member by member; anything else that
// differs replaces the value of t.
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

// TypedMutator makes the mutating side of an admission plugin of a function on Go structs. The plugin's
// Rules must select T's kind alone. f is not called for a deletion, which has no object.
//
// What f changes in obj is changed in the object; everything else, unknown fields too, stays as it was
// sent (design rule 7).
func TypedMutator[T any](f func(ctx context.Context, r *admission.Request, obj *T) error) admission.Mutator {
	if f == nil {
		return nil // which is reported when the plugin is given to a server
	}
	return admission.MutatorFunc(func(ctx context.Context, r *admission.Request) (map[string]any, error) {
		if r.Object == nil {
			return nil, nil
		}
		var refused error
		t, err := mutateTyped(ctx, r.Object, func(ctx context.Context, obj *T) { refused = f(ctx, r, obj) })
		if refused != nil {
			return nil, refused
		}
		return t, err
	})
}

// TypedValidator does for validating what TypedMutator does for mutating. obj is nil when an object is
// deleted, old when one is created.
func TypedValidator[T any](f func(ctx context.Context, r *admission.Request, obj, old *T) error) admission.Validator {
	if f == nil {
		return nil
	}
	return admission.ValidatorFunc(func(ctx context.Context, r *admission.Request) error {
		obj, err := optional[T](r.Object)
		if err != nil {
			return err
		}
		old, err := optional[T](r.OldObject)
		if err != nil {
			return err
		}
		return f(ctx, r, obj, old)
	})
}

// optional is decodeTyped for a tree that may be missing.
func optional[T any](t Tree) (*T, error) {
	if t == nil {
		return nil, nil
	}
	return decodeTyped[T](t)
}
