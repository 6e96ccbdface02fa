package registry

import (
	"context"
	"fmt"
	"iter"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// admissionTarget is what plugins are told of a request before it is known which of them handle it.
func admissionTarget(t Target, op admission.Operation, name string) admission.Target {
	return admission.Target{Operation: op, Resource: t.Resource, Subresource: t.Subresource, Namespace: admissionNamespace(t, name)}
}

// admissionNamespace is the namespace that plugins see. That of a Namespace is its own name.
func admissionNamespace(t Target, name string) string {
	if t.Resource.Group == "" && t.Resource.Resource == "namespaces" {
		return name
	}
	return t.Namespace
}

// admission returns the request that plugins see of a write to a target. The caller adds the objects,
// the options and the user.
func (e *Engine) admission(t Target, op admission.Operation, kind meta.GroupVersionKind, name string) *admission.Request {
	return &admission.Request{
		Operation: op,
		Kind:      kind, Resource: t.Resource, Subresource: t.Subresource,
		RequestKind: kind, RequestResource: t.Resource, RequestSubresource: t.Subresource,
		Namespace: admissionNamespace(t, name), Name: name,
		Server: admissionServer{e},
	}
}

func (w *write) admissionTarget() admission.Target {
	return admissionTarget(w.target, w.operation(), w.name())
}

func (w *write) admission() *admission.Request {
	r := w.engine.admission(w.target, w.operation(), w.kind().GroupVersionKind(), w.name())
	r.Object, r.OldObject, r.User, r.DryRun = w.object, w.oldTree, w.user, w.opts.DryRun
	if w.looking != nil && w.looking.merged { // those who admit see documents all the way
		kind := w.sub.view.document.GroupVersionKind()
		r.Kind, r.RequestKind, r.Object, r.OldObject = kind, kind, w.looking.new, w.looking.old
	}
	validation := string(w.opts.FieldValidation)
	if r.Operation == admission.Create {
		r.Options = meta.CreateOptions{TypeMeta: w.engine.optionsKind("CreateOptions"), DryRun: dryRun(w.opts.DryRun), FieldManager: w.opts.FieldManager, FieldValidation: validation}
	} else {
		r.Options = meta.UpdateOptions{TypeMeta: w.engine.optionsKind("UpdateOptions"), DryRun: dryRun(w.opts.DryRun), FieldManager: w.opts.FieldManager, FieldValidation: validation}
	}
	return r
}

// optionsKind is the kind of the options of a request (ADM-15).
func (e *Engine) optionsKind(kind string) meta.TypeMeta {
	return meta.TypeMeta{APIVersion: "meta." + e.cfg.GroupDomain + "/v1", Kind: kind}
}

func dryRun(on bool) []string {
	if on {
		return []string{"All"}
	}
	return nil
}

// admissionServer answers what plugins ask about other objects.
type admissionServer struct{ e *Engine }

var _ admission.Server = admissionServer{}

func (s admissionServer) Authorizer() authz.Authorizer { return s.e.cfg.Authorizer }

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

// read returns the newest entry of an object.
func (s admissionServer) read(ctx context.Context, of meta.GroupVersionResource, namespace, name string) (*Served, *watch.Entry, error) {
	at, err := s.e.Resolve(Target{Resource: of, Namespace: namespace, Name: name})
	if err != nil {
		return nil, nil, err
	}
	served := at.Served
	if served.Resource.Virtual != nil {
		return nil, nil, status.MethodNotAllowed(of.GroupResource(), "get")
	}
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
	object, err := treeOf(entry)
	if err != nil {
		return nil, err
	}
	return served.Kind.FromStored(ctx, object)
}

func (s admissionServer) Labels(ctx context.Context, of meta.GroupVersionResource, namespace, name string) (meta.LabelSet, error) {
	_, entry, err := s.read(ctx, of, namespace, name)
	if err != nil {
		return nil, err
	}
	return entry.Facts().Labels, nil
}

func (s admissionServer) List(ctx context.Context, of meta.GroupVersionResource, namespace string) iter.Seq2[map[string]any, error] {
	return func(yield func(map[string]any, error) bool) {
		list, err := s.e.List(ctx, Target{Resource: of, Namespace: namespace}, ListRequest{})
		if err != nil {
			yield(nil, err)
			return
		}
		for entry, err := range list.Items {
			var object Tree
			if err == nil {
				object, err = treeOf(entry)
			}
			if !yield(object, err) || err != nil {
				return
			}
		}
	}
}
