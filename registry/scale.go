package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kindwright/kindwright/apply"
	"github.com/kindwright/kindwright/internal/table"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/status"
)

// Scale is what the subresource scale exchanges, whatever the kind: how many replicas an object should have, and has
// (UPDATE-12). It is kind Scale of autoscaling/v1.
type Scale struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero" protobuf:"bytes,1,opt,name=metadata"`

	Spec   ScaleSpec   `json:"spec,omitzero" protobuf:"bytes,2,opt,name=spec" doc:"How many replicas there should be."`
	Status ScaleStatus `json:"status,omitzero" protobuf:"bytes,3,opt,name=status" doc:"How many replicas there are. It cannot be written here."`
}

// ScaleSpec is what a Scale asks for.
type ScaleSpec struct {
	Replicas int32 `json:"replicas,omitempty" protobuf:"varint,1,opt,name=replicas" doc:"How many replicas there should be."`
}

// ScaleStatus is what a Scale tells.
type ScaleStatus struct {
	Replicas int32  `json:"replicas" optional:"" protobuf:"varint,1,opt,name=replicas" doc:"How many replicas there are."`
	Selector string `json:"selector,omitempty" protobuf:"bytes,2,opt,name=selector" doc:"A label selector, in its text form, of what the replicas are counted by."`
}

// ScaleSubresource is the subresource scale: it shows and changes the replicas of an object as a Scale, wherever the kind keeps
// them (UPDATE-12), which is what `kubectl scale` and autoscalers use. The paths are written as in a custom resource
// definition.
type ScaleSubresource struct {
	SpecReplicasPath   string // such as ".spec.replicas": a whole number; absent counts as 0
	StatusReplicasPath string // such as ".status.replicas"
	LabelSelectorPath  string // such as ".status.selector": a string; may be empty

	// Selector makes the text of the selector where no field of the object holds it as text, as in the workloads of Kubernetes.
	// LabelSelectorPath is unused then.
	Selector func(t Tree) string
}

// Describe makes the scale a Subresource. The error says which path leads nowhere.
func (s ScaleSubresource) Describe(of *Resource) (Subresource, error) {
	fail := func(err error) (Subresource, error) {
		return Subresource{}, fmt.Errorf("subresource \"scale\": %w", err)
	}
	spec, err := scalePath(of, "SpecReplicasPath", s.SpecReplicasPath, openapi.Integer, "spec")
	if err != nil {
		return fail(err)
	}
	state, err := scalePath(of, "StatusReplicasPath", s.StatusReplicasPath, openapi.Integer, "status")
	if err != nil {
		return fail(err)
	}
	var selector []string
	if s.LabelSelectorPath != "" && s.Selector == nil {
		if selector, err = scalePath(of, "LabelSelectorPath", s.LabelSelectorPath, openapi.String, "spec", "status"); err != nil {
			return fail(err)
		}
	}
	document, err := describeDocument[Scale](meta.GroupVersionKind{Group: "autoscaling", Version: "v1"}, of)
	if err != nil {
		return fail(err)
	}
	document.Hooks.Validate = validateScale
	if document.layout, err = table.New(framed([]openapi.Column{
		{Name: "Desired", Type: "integer", Description: "How many replicas there should be.", Path: []string{"spec", "replicas"}},
		{Name: "Available", Type: "integer", Description: "How many replicas there are.", Path: []string{"status", "replicas"}},
	})); err != nil {
		return fail(err)
	}
	owners, err := apply.New([]apply.Version{{APIVersion: apply.ScaleVersion, Schema: document.Schema}}, nil)
	if err != nil {
		return fail(err)
	}
	paths := scale{replicas: spec, state: state, selector: selector, made: s.Selector, owners: owners}
	return Subresource{
		Name: "scale", Verbs: []string{"get", "patch", "update"}, Fields: [][]string{spec},
		view: &view{document: document, get: paths.get, merge: paths.merge, scale: &paths},
	}, nil
}

// scalePath reads a path of a ScaleSubresource.
func scalePath(of *Resource, name, path string, kind openapi.Type, below ...string) ([]string, error) {
	names := strings.Split(path, ".")
	if len(names) < 3 || names[0] != "" {
		return nil, fmt.Errorf("%s %q is no path such as .%s.replicas", name, path, below[0])
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
	case !ok:
		return nil, fmt.Errorf("%s %q: the kind has no such field", name, path)
	case schema.Type != kind:
		return nil, fmt.Errorf("%s %q: the field is %q, and must be %q", name, path, schema.Type, kind)
	}
	return names, nil
}

// scale is where a kind keeps what a Scale shows.
type scale struct {
	replicas, state, selector apply.Path
	made                      func(Tree) string
	owners                    *apply.Fields // of the fields of a Scale
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
	return Tree{"spec": Tree{"replicas": replicas}, "status": status}, nil
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

// merge sets the replicas. Where the object says nothing of them and the Scale says none, it goes on saying nothing.
func (s *scale) merge(_ context.Context, object, document Tree) (Tree, error) {
	replicas, _ := tree.At(document, "spec", "replicas").(int64)
	if replicas == 0 && tree.At(object, s.replicas...) == nil {
		return object, nil
	}
	return tree.With(object, replicas, s.replicas...), nil
}

func validateScale(_ context.Context, t Tree, f *status.Fields) {
	if n, _ := tree.At(t, "spec", "replicas").(int64); n < 0 {
		f.At("spec", "replicas").Invalid(n, "must be greater than or equal to 0")
	}
}

// replicas says for each version of the objects of s where their replicas are: nowhere, for those that have no scale of
// their own.
func (e *Engine) replicas(s *Served) map[string]apply.Path {
	base := s.Resource.base()
	out := map[string]apply.Path{}
	for _, form := range e.set.Load().every { // also what is hidden: owners are not forgotten while a version is switched off
		if form.Resource.base() != base {
			continue
		}
		var path apply.Path
		if sub, ok := form.Resource.Subresource("scale"); ok && !sub.stored && sub.view != nil && sub.view.scale != nil {
			path = sub.view.scale.replicas
		}
		out[form.Resource.APIVersion()] = path
	}
	return out
}

// manageScale notes in the Scale who owns its fields. Of an object whose fields have owners, but whose replicas have none, the
// writer who changes them becomes the first.
func (w *write) manageScale(v *view) error {
	request := w.ownershipRequest(w.object)
	request.APIVersion = apply.ScaleVersion
	if len(tree.List(w.oldTree, "metadata", "managedFields")) == 0 {
		changed := !tree.SameScalar(tree.At(w.oldTree, "spec", "replicas"), tree.At(w.object, "spec", "replicas"))
		if !changed || len(tree.List(w.looking.parent, "metadata", "managedFields")) == 0 {
			return nil
		}
		request.Live = nil
	}
	t, err := v.scale.owners.Update(request)
	if t == nil {
		return err
	}
	w.unowned = err
	w.object = t
	return nil
}

// scaleOwners works out from the owners of a Scale those of the object.
func (w *write) scaleOwners() {
	of := tree.List(w.looking.parent, "metadata", "managedFields")
	owners, err := apply.FromScale(of, tree.List(w.object, "metadata", "managedFields"), w.resource().APIVersion(), w.engine.replicas(w.served))
	if err != nil {
		w.unowned, owners = err, of
	}
	w.looking.owners = owners
}

// applyScale computes what a server-side apply makes of a Scale.
func (w *write) applyScale(v *view, config Tree) (Tree, error) {
	request := w.ownershipRequest(config)
	request.APIVersion = apply.ScaleVersion
	return v.scale.owners.Apply(request)
}
