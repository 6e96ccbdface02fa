package kube

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// A kind is one of Kubernetes' types with what its tags cannot express.
type kind[T any] struct {
	registry.Kind[T]
	cluster *cluster

	// fields can be used in selectors, beside the name and the namespace. computed holds those
	// whose value is not simply a field of the object.
	fields   []string
	computed map[string]func(registry.Tree) string

	// fill applies defaults. It runs on every write, so it must not change its own result. asked
	// does the same for values that depend on the user.
	fill  func(*T)
	asked func(context.Context, *T)

	// keep runs before an object is stored through its main path, and reverts changes that this
	// path does not allow. old is nil for a new object. For kinds with a status, the status is
	// reverted too.
	keep func(obj, old *T)

	// statusKeeps are the metadata that a write of the status does not change. It changes all
	// others.
	statusKeeps []string

	// statusAtBirth stores the status of a new object as it was sent.
	statusAtBirth bool

	// complete sets the values that the server chooses, once an object has its uid. old is nil for
	// a new object. It runs only for objects written as T, and must not change its own result.
	complete func(ctx context.Context, obj, old *T) error
}

// Define makes it a registry.Definition.
func (k kind[T]) Define(env registry.Env) (registry.Bundle, error) {
	k.Overlay = k.cluster.overlay
	k.StatusMetadata = takenWithStatus(k.statusKeeps)
	rules := k.Validate
	k.Validate = func(ctx context.Context, obj *T, f *status.Fields) {
		k.cluster.enumerations.check(reflect.ValueOf(obj).Elem(), f)
		if rules != nil {
			rules(ctx, obj, f)
		}
	}
	b, err := k.Kind.Define(env)
	if err != nil {
		return b, err
	}
	if err := k.finish(b.Resources[0]); err != nil {
		return b, err
	}
	return b, nil
}

// everyMetadata are the metadata fields that a client may change.
func everyMetadata() []string {
	return []string{"labels", "annotations", "finalizers", "ownerReferences"}
}

// takenWithStatus returns the metadata that a write of the status may change: all but a few.
func takenWithStatus(but []string) []string {
	return slices.DeleteFunc(everyMetadata(), func(field string) bool { return slices.Contains(but, field) })
}

// finish adds to a resource what registry.Kind cannot express.
func (k kind[T]) finish(r *registry.Resource) error {
	r.Selectable, r.Computed = k.fields, k.computed
	r.Hooks.Default = k.settle
	empty, err := treeOf(new(T))
	if err != nil {
		return err
	}
	r.Reset = k.reset(r.Reset, empty["status"])
	if k.complete != nil {
		r.Hooks.Complete = k.completed
	}
	return nil
}

// decode decodes an object into a Go type.
func decode[T any](t registry.Tree) (*T, error) {
	obj := new(T)
	if err := json.FromTree(t, obj); err != nil {
		return nil, fmt.Errorf("read as %s: %w", reflect.TypeFor[T](), err)
	}
	return obj, nil
}

// settle decodes an object into T and encodes it again. Kubernetes' types write some empty fields,
// such as the resources of a container, and every typed client sends them back. An object that has
// them from the beginning does not change when it comes back.
func (k kind[T]) settle(ctx context.Context, t registry.Tree) (registry.Tree, error) {
	obj, err := decode[T](t)
	if err != nil {
		return nil, err
	}
	if k.fill != nil {
		k.fill(obj)
	}
	if k.asked != nil {
		k.asked(ctx, obj)
	}
	out, err := treeOf(obj)
	if err != nil {
		return nil, err
	}
	return withMetadata(out, t), nil
}

// reset combines keep with the fields that the kind reverts anyway. A new object gets an empty
// status.
func (k kind[T]) reset(status func(old, sent registry.Tree) registry.Tree, none any) func(old, sent registry.Tree) registry.Tree {
	return func(old, sent registry.Tree) registry.Tree {
		if status != nil {
			if old != nil || !k.statusAtBirth {
				sent = status(old, sent)
			}
			if _, has := sent["status"]; !has && none != nil {
				sent = maps.Clone(sent)
				sent["status"] = none
			}
		}
		if k.keep == nil {
			return sent
		}
		obj, before := new(T), (*T)(nil)
		if json.FromTree(sent, obj) != nil {
			return sent // validation rejects it
		}
		if old != nil {
			before = new(T)
			if json.FromTree(old, before) != nil {
				return sent
			}
		}
		k.keep(obj, before)
		out, err := treeOf(obj)
		if err != nil {
			return sent
		}
		return withoutNull(withMetadata(out, sent))
	}
}

// completed is complete for trees.
func (k kind[T]) completed(ctx context.Context, t, old registry.Tree) (registry.Tree, error) {
	obj, err := decode[T](t)
	if err != nil {
		return nil, err
	}
	var before *T
	if old != nil {
		if before, err = decode[T](old); err != nil {
			return nil, err
		}
	}
	if err := k.complete(ctx, obj, before); err != nil {
		return nil, err
	}
	out, err := treeOf(obj)
	if err != nil {
		return nil, err
	}
	return withMetadata(out, t), nil
}

// withoutNull returns a tree without its null values, which mean absent.
func withoutNull(t map[string]any) map[string]any {
	out := make(map[string]any, len(t))
	for name, v := range t {
		switch v := v.(type) {
		case nil:
			continue
		case map[string]any:
			out[name] = withoutNull(v)
		case []any:
			list := make([]any, len(v))
			for i, item := range v {
				if list[i] = item; item != nil {
					if m, ok := item.(map[string]any); ok {
						list[i] = withoutNull(m)
					}
				}
			}
			out[name] = list
		default:
			out[name] = v
		}
	}
	return out
}

// treeOf encodes an object of a Go type as a tree.
func treeOf(obj any) (registry.Tree, error) {
	fillEmpty(reflect.ValueOf(obj))
	v, err := json.TreeOf(obj)
	if err != nil {
		return nil, fmt.Errorf("write %T: %w", obj, err)
	}
	t, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("write %T: it is no JSON object", obj)
	}
	return t, nil
}

// withMetadata returns t with the metadata of another tree. The library manages metadata, except
// for what kinds set there.
func withMetadata(t, of registry.Tree) registry.Tree {
	out := maps.Clone(t)
	before, _ := of["metadata"].(map[string]any)
	now, _ := t["metadata"].(map[string]any)
	metadata := maps.Clone(before)
	if metadata == nil {
		metadata = map[string]any{}
	}
	for _, field := range []string{"labels", "annotations", "finalizers"} {
		if v := now[field]; v != nil && !json.Equal(v, before[field]) {
			metadata[field] = v
		}
	}
	out["metadata"] = metadata
	return out
}
