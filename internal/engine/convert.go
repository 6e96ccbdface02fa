package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// conversion is one direction of a registry.Conversion.
type conversion func(ctx context.Context, objects []registry.Tree) ([]registry.Tree, error)

// to converts objects in one call. It gives each the kind of its new form, the metadata it had, and the
// shape that its schema asks for. A panic in the conversion is an error that tells where.
func (convert conversion) to(ctx context.Context, to *registry.Resource, objects []registry.Tree) (out []registry.Tree, err error) {
	made, err := convert.call(ctx, objects)
	if err != nil {
		return nil, err
	}
	out = make([]registry.Tree, len(made))
	for i := range made {
		if out[i], err = adopt(to, made[i], objects[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// call converts objects in one call, and checks that as many came back.
func (convert conversion) call(ctx context.Context, objects []registry.Tree) (made []registry.Tree, err error) {
	defer guard.Recover(&err, "the conversion")
	made, err = convert(ctx, objects)
	switch {
	case err != nil:
		return nil, err
	case len(made) != len(objects):
		return nil, fmt.Errorf("the conversion of %d objects returned %d", len(objects), len(made))
	case slices.ContainsFunc(made, func(t registry.Tree) bool { return t == nil }):
		return nil, errors.New("the conversion returned nothing")
	}
	return made, nil
}

// adopt turns what a conversion returned for t into an object of form r.
func adopt(r *registry.Resource, out, t registry.Tree) (registry.Tree, error) {
	out = tree.With(tree.With(out, r.APIVersion(), "apiVersion"), r.Names.Kind, "kind")
	out = tree.With(out, t["metadata"], "metadata")
	out, _ = r.Schema.Prune(out)
	canonical, problems := r.Schema.Canonical(out)
	if len(problems) > 0 {
		return nil, fmt.Errorf("the conversion to %s made an object its schema refuses: %s", r.GroupVersionKind(), problems[0].Message())
	}
	return canonical, nil
}

// FromStored converts an object from the stored form to the form of r. It returns the object itself if r
// is the stored form. It changes nothing and checks no rules. The error is the one that a client gets; it
// unwraps to its cause.
func FromStored(ctx context.Context, r *registry.Resource, t registry.Tree) (registry.Tree, error) {
	if r.Stored == nil || t == nil {
		return t, nil
	}
	if r.Stored.Resource.Converter != nil {
		return straightOne(ctx, r, t)
	}
	out, err := allFromStored(ctx, r, []registry.Tree{t})
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// allFromStored is FromStored for many objects, in one call of the conversion. The error names the first
// of them, whichever it is about.
func allFromStored(ctx context.Context, r *registry.Resource, objects []registry.Tree) ([]registry.Tree, error) {
	out, err := conversion(r.Stored.From).to(ctx, r, objects)
	if err != nil {
		return nil, unconverted(r, objects[0], "cannot be shown as "+r.APIVersion(), err)
	}
	return out, nil
}

// ToStored converts an object from the form of r to the stored form. Because a client may have sent the
// object, a *status.Error of the conversion is returned as it is.
func ToStored(ctx context.Context, r *registry.Resource, t registry.Tree) (registry.Tree, error) {
	if r.Stored == nil {
		return t, nil
	}
	stored := r.Stored.Resource
	if stored.Converter != nil {
		return straightOne(ctx, stored, t)
	}
	out, err := conversion(r.Stored.To).to(ctx, stored, []registry.Tree{t})
	if err == nil {
		return out[0], nil
	}
	if known, ok := errors.AsType[*status.Error](err); ok {
		return nil, known
	}
	return nil, unconverted(r, t, "cannot be stored as "+stored.APIVersion(), err)
}

// unconverted says which object a conversion failed for. Only the log gets the reason.
func unconverted(r *registry.Resource, t registry.Tree, what string, cause error) error {
	name := tree.NameOf(t)
	return status.Internal(fmt.Errorf("%s %q %s: %w", r.GroupResource(), name, what, cause)).
		WithMessage(fmt.Sprintf("Internal error occurred: %s %q %s; the server's log has the cause", r.GroupResource(), tree.Cut(name), what))
}

// recordsToStored converts records that were written in the form of r to the stored form, in one call of
// the conversion. An error is the server's own: what is wrong was stored, and no client has sent it.
func (r *Kind) recordsToStored(ctx context.Context, objects []registry.Tree) ([]registry.Tree, error) {
	stored := r.Stored.Resource
	out, err := conversion(r.Stored.To).to(ctx, stored, objects)
	if err != nil {
		return nil, unconverted(r.Resource, objects[0], "cannot be shown as "+stored.APIVersion(), err)
	}
	for i := range out {
		out[i] = stored.Schema.Default(out[i])
	}
	return out, nil
}
