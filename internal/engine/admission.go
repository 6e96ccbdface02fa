package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// admissible is an operation that plugins are asked about: a write, a deletion or a connection.
type admissible interface {
	// admissionTarget describes the operation before the plugins that handle it are known.
	admissionTarget() admission.Target

	// admission describes the operation to the plugins that handle it.
	admission() *admission.Request
}

// mutates reports whether a mutating plugin has to be asked.
func (e *Engine) mutates(a admissible) bool {
	return e.cfg.Admission != nil && e.cfg.Admission.Mutates(a.admissionTarget())
}

// mutate asks the mutating plugins. It returns the object that they produce and reports whether it
// differs from the one sent.
func (e *Engine) mutate(ctx context.Context, a admissible) (t registry.Tree, changed bool, err error) {
	t, changed, err = e.cfg.Admission.Mutate(ctx, a.admission())
	return t, changed, judged(err)
}

// admit asks the validating plugins.
func (e *Engine) admit(ctx context.Context, a admissible) error {
	if e.cfg.Admission == nil || !e.cfg.Admission.Validates(a.admissionTarget()) {
		return nil
	}
	return judged(e.cfg.Admission.Validate(ctx, a.admission()))
}

// judgement is the error of a plugin.
type judgement struct{ error }

// Unwrap returns the error.
func (j *judgement) Unwrap() error { return j.error }

func judged(err error) error {
	if err == nil {
		return nil
	}
	return &judgement{err}
}

// IsGone reports whether an error says that an object does not exist. A webhook may deny a write with any
// reason, so one that says "not found" says nothing about the object.
func IsGone(err error) bool {
	_, opinion := errors.AsType[*judgement](err)
	return !opinion && status.IsNotFound(err)
}

// admissionTarget describes a request before the plugins that handle it are known.
func admissionTarget(t registry.Target, op admission.Operation, name string) admission.Target {
	namespace := t.Namespace
	if t.Resource.Group == "" && t.Resource.Resource == "namespaces" {
		namespace = name // the namespace of a Namespace is itself
	}
	return admission.Target{Operation: op, Resource: t.Resource, Subresource: t.Subresource, Namespace: namespace}
}

// admission completes the description of an operation for plugins. The caller fills in the kind,
// the name, the objects, the options and the user.
func (e *Engine) admission(t admission.Target, r admission.Request) *admission.Request {
	r.Operation, r.Namespace, r.Server = t.Operation, t.Namespace, admissionServer{e: e}
	r.Resource, r.Subresource = t.Resource, t.Subresource
	r.RequestKind, r.RequestResource, r.RequestSubresource = r.Kind, t.Resource, t.Subresource
	return &r
}

func (w *write) admissionTarget() admission.Target {
	return admissionTarget(w.target, w.operation(), w.name())
}

// admission shows plugins what the requester writes. For a view, that is the document.
func (w *write) admission() *admission.Request {
	var options any
	if w.operation() == admission.Create {
		options = meta.CreateOptions{
			TypeMeta: w.engine.optionsKind("CreateOptions"), DryRun: dryRun(w.opts.DryRun),
			FieldManager: w.opts.FieldManager, FieldValidation: w.opts.FieldValidation,
		}
	} else {
		options = meta.UpdateOptions{
			TypeMeta: w.engine.optionsKind("UpdateOptions"), DryRun: dryRun(w.opts.DryRun),
			FieldManager: w.opts.FieldManager, FieldValidation: w.opts.FieldValidation,
		}
	}
	r := w.engine.admission(w.admissionTarget(), admission.Request{
		Kind: w.sent.kind.GroupVersionKind(), Name: w.name(), Object: w.sent.new, OldObject: w.sent.old,
		Options: options, User: w.user, DryRun: w.opts.DryRun, Notes: &w.notes,
	})
	if w.sent.kind != w.kind {
		r.Server = admissionServer{e: w.engine, written: w.sent.kind}
	}
	return r
}

// optionsKind returns the apiVersion and kind of a request's options (ADM-15).
func (e *Engine) optionsKind(kind string) meta.TypeMeta {
	return meta.TypeMeta{APIVersion: "meta." + e.cfg.GroupDomain + "/v1", Kind: kind}
}

func dryRun(on bool) []string {
	if on {
		return []string{"All"}
	}
	return nil
}

// Authorizer decides what the user of a request may do beside the request itself, for hooks and
// plugins.
func (e *Engine) Authorizer() authz.Authorizer { return e.cfg.Authorizer }

// admissionServer answers the questions that plugins ask about other objects.
type admissionServer struct {
	e       *Engine
	written *Kind // the document that is written, if it is not the object
}

var _ admission.Server = admissionServer{}

func (s admissionServer) Authorizer() authz.Authorizer { return s.e.Authorizer() }

func (s admissionServer) Convert(ctx context.Context, object map[string]any, to meta.GroupVersionKind) (map[string]any, error) {
	if tree.Text(object, "apiVersion") == to.GroupVersion().String() && tree.Text(object, "kind") == to.Kind {
		return object, nil
	}
	gv, err := meta.ParseGroupVersion(tree.Text(object, "apiVersion"))
	if err != nil {
		return nil, status.Internal(fmt.Errorf("convert to %s: %w", to, err))
	}
	set := s.e.Set()
	from, ok := set.ForKind(gv.WithKind(tree.Text(object, "kind")))
	into, known := set.ForKind(to)
	if !ok || !known {
		return nil, status.Internal(fmt.Errorf("convert %s to %s: both have to be served", gv.WithKind(tree.Text(object, "kind")), to))
	}
	return from.Kind.convert(ctx, object, into.Kind)
}

// ConvertBack carries a change over as a difference, as a write through another version is one.
func (s admissionServer) ConvertBack(ctx context.Context, object, shown, changed map[string]any) (map[string]any, error) {
	served, err := s.served(object)
	if err != nil {
		return nil, err
	}
	to := served.Kind.GroupVersionKind()
	after, err := s.Convert(ctx, changed, to)
	if err != nil || served.Kind.straight() {
		return after, err
	}
	before, err := s.Convert(ctx, shown, to)
	if err != nil {
		return nil, err
	}
	out := served.Kind.Schema.Merge(object, before, after)
	return tree.With(out, after["metadata"], "metadata"), nil
}

// read returns the newest entry of an object.
func (s admissionServer) read(ctx context.Context, of meta.GroupVersionResource, namespace, name string) (*Served, *watch.Entry, error) {
	at, err := s.e.Resolve(request.VerbGet, registry.Target{Resource: of, Namespace: namespace, Name: name})
	if err != nil {
		return nil, nil, err
	}
	served := at.Served
	entry, err := s.e.current(ctx, served, storage.ObjectKey(served.Resource.StorageName, namespace, name))
	if err == nil && entry == nil {
		err = status.NotFound(of.GroupResource(), name)
	}
	return served, entry, err
}

func (s admissionServer) Get(ctx context.Context, of meta.GroupVersionResource, namespace, name string) (map[string]any, error) {
	served, entry, err := s.read(ctx, of, namespace, name)
	if err != nil {
		return nil, err
	}
	return served.treeOf(ctx, entry)
}

func (s admissionServer) Labels(ctx context.Context, of meta.GroupVersionResource, namespace, name string) (meta.LabelSet, error) {
	_, entry, err := s.read(ctx, of, namespace, name)
	if err != nil {
		return nil, err
	}
	return entry.Labels(), nil
}

func (s admissionServer) List(ctx context.Context, of meta.GroupVersionResource, namespace string) iter.Seq2[map[string]any, error] {
	return func(yield func(map[string]any, error) bool) {
		list, err := s.e.List(ctx, registry.Target{Resource: of, Namespace: namespace}, registry.ListRequest{})
		if err != nil {
			yield(nil, err)
			return
		}
		for entry, err := range list.Items {
			var object registry.Tree
			if err == nil {
				object, err = treeOf(entry)
			}
			if !yield(object, err) || err != nil {
				return
			}
		}
	}
}

func (s admissionServer) ResourceOf(kind meta.GroupVersionKind) (admission.Form, bool) {
	set := s.e.Set()
	served, ok := set.ForKind(kind)
	if !ok || !set.Visible(served) {
		return admission.Form{}, false
	}
	return formOf(served), true
}

func (s admissionServer) Forms(of meta.GroupVersionResource) []admission.Form {
	set := s.e.Set()
	served, ok := set.Lookup(of)
	if !ok {
		return nil
	}
	f, ok := set.families.get(served.Resource.StorageName)
	if !ok {
		return []admission.Form{formOf(served)}
	}
	var out []admission.Form
	for _, one := range f.forms {
		if set.Visible(one) || one.Resource.Unserved { // what names a version holds when clients cannot ask for it any more
			out = append(out, formOf(one))
		}
	}
	return out
}

func formOf(s *Served) admission.Form {
	return admission.Form{
		Resource: s.Kind.GroupVersionResource(), Kind: s.Kind.GroupVersionKind(), ClusterScoped: s.Resource.ClusterScoped,
	}
}
