package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/status"
)

// ScaleSubresource is the subresource scale: it shows and changes the replicas of an object as a
// meta.Scale, wherever the kind keeps them, which is what `kubectl scale` and autoscalers use. The
// paths are written as in a custom resource definition.
// Source: UPDATE-12.
type ScaleSubresource struct {
	SpecReplicasPath   string // such as ".spec.replicas": a whole number; absent counts as 0, unless Stated
	StatusReplicasPath string // such as ".status.replicas"
	LabelSelectorPath  string // such as ".status.selector": a string; may be empty

	// Undeclared allows paths to fields that the schema does not name, and values of any type there: the
	// Scale of an object whose replicas are not numbers is an error.
	Undeclared bool

	// Stated means that an object which says nothing of its replicas has no Scale: to read it is an error, and a
	// patch has to say how many there shall be. Otherwise absent replicas count as 0. A write of 0 then changes
	// nothing, while here it is stored: what a controller makes of absent replicas need not be none.
	Stated bool

	// Selector makes the text of the selector where no field of the object holds it as text, as in the workloads of Kubernetes.
	// LabelSelectorPath is unused then.
	Selector func(t Tree) string
}

// Describe makes the scale a Subresource. The error says which path leads nowhere.
func (s ScaleSubresource) Describe(of *Resource, env Env) (Subresource, error) {
	fail := func(err error) (Subresource, error) {
		return Subresource{}, fmt.Errorf("subresource \"scale\": %w", err)
	}
	spec, err := s.path(of, "SpecReplicasPath", s.SpecReplicasPath, openapi.Integer, "spec")
	if err != nil {
		return fail(err)
	}
	state, err := s.path(of, "StatusReplicasPath", s.StatusReplicasPath, openapi.Integer, "status")
	if err != nil {
		return fail(err)
	}
	var selector []string
	if s.LabelSelectorPath != "" && s.Selector == nil {
		if selector, err = s.path(of, "LabelSelectorPath", s.LabelSelectorPath, openapi.String, "spec", "status"); err != nil {
			return fail(err)
		}
	}
	document, err := describeDocument[meta.Scale](meta.GroupVersionKind{Group: "autoscaling", Version: "v1"}, of, env)
	if err != nil {
		return fail(err)
	}
	document.Hooks.Validate = validateScale
	document.Columns = framed([]openapi.Column{
		{Name: "Desired", Type: "integer", Description: "How many replicas there should be.", Path: []string{"spec", "replicas"}},
		{Name: "Available", Type: "integer", Description: "How many replicas there are.", Path: []string{"status", "replicas"}},
	})
	paths := scale{replicas: spec, state: state, selector: selector, made: s.Selector, stated: s.Stated}
	return Subresource{
		Name: "scale", Verbs: []string{"get", "patch", "update"}, Fields: [][]string{spec},
		View: &Part{Document: document, Get: paths.get, Merge: paths.merge, Replicas: spec},
	}, nil
}

// path reads a path of a ScaleSubresource.
func (s ScaleSubresource) path(of *Resource, name, path string, kind openapi.Type, below ...string) ([]string, error) {
	names := strings.Split(path, ".")
	if len(names) < 3 || names[0] != "" {
		return nil, fmt.Errorf("%s %q must be a path such as .%s.replicas", name, path, below[0])
	}
	names = names[1:]
	within := false
	for _, root := range below {
		within = within || names[0] == root
	}
	if !within {
		return nil, fmt.Errorf("%s %q does not begin with .%s", name, path, strings.Join(below, " or ."))
	}
	schema, ok := of.Schema.Lookup(names...)
	switch {
	case s.Undeclared:
	case !ok:
		return nil, fmt.Errorf("%s %q: the kind has no such field", name, path)
	case schema.Type != kind:
		return nil, fmt.Errorf("%s %q: the field is %q, and must be %q", name, path, schema.Type, kind)
	}
	return names, nil
}

// scale is where a kind keeps what a Scale shows.
type scale struct {
	replicas, state, selector []string
	made                      func(Tree) string
	stated                    bool
}

func (s *scale) get(_ context.Context, object Tree) (Tree, error) {
	replicas, err := count(object, s.replicas)
	if err != nil {
		return nil, err
	}
	state, err := count(object, s.state)
	if err != nil {
		return nil, err
	}
	status := Tree{"replicas": state}
	selector := ""
	switch {
	case s.made != nil:
		selector = s.made(object)
	case len(s.selector) > 0:
		selector = tree.Text(object, s.selector...)
	}
	if selector != "" {
		status["selector"] = selector
	}
	spec := Tree{"replicas": replicas}
	if s.stated && tree.At(object, s.replicas...) == nil {
		spec = Tree{}
	}
	return Tree{"spec": spec, "status": status}, nil
}

// count returns the whole number at a path, 0 where there is none.
func count(object Tree, path []string) (int64, error) {
	v := tree.At(object, path...)
	n, ok := v.(int64)
	switch {
	case v == nil:
		return 0, nil
	case !ok || n != int64(int32(n)):
		return 0, status.Internal(errors.New("." + strings.Join(path, ".") + " is no number of replicas"))
	}
	return n, nil
}

// merge sets the replicas. Where the object says nothing of them and the Scale says none, it goes on
// saying nothing, unless they have to be stated.
func (s *scale) merge(_ context.Context, object, document Tree) (Tree, error) {
	replicas, said := tree.At(document, "spec", "replicas").(int64)
	if tree.At(object, s.replicas...) == nil {
		switch {
		case s.stated && !said:
			return nil, status.BadRequest("the spec replicas field %q cannot be empty", "."+strings.Join(s.replicas, "."))
		case !s.stated && replicas == 0:
			return object, nil
		}
	}
	return tree.With(object, replicas, s.replicas...), nil
}

func validateScale(_ context.Context, t Tree, f *status.Fields) {
	if n, _ := tree.At(t, "spec", "replicas").(int64); n < 0 {
		f.At("spec", "replicas").Invalid(n, "must be greater than or equal to 0")
	}
}
