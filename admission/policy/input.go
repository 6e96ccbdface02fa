package policy

import (
	"context"
	"maps"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// view shows the objects of a request in one form.
type view struct {
	form admission.Form
	in   cel.AdmissionInput
}

// input returns what the expressions of a policy see of the request. Objects are converted once for each
// version.
func (w *walk) input(as admission.Form) (cel.AdmissionInput, error) {
	for i := range w.views {
		if w.views[i].form == as {
			return w.views[i].in, nil
		}
	}
	var described map[string]any // when the first expression asks
	in := cel.AdmissionInput{
		Object: w.r.Object, OldObject: w.r.OldObject,
		Request: func() map[string]any {
			if described == nil {
				described = w.description(as)
			}
			return described
		},
		Ask: w.ask, About: about(w.r),
	}
	if w.r.Namespace != "" && !isNamespace(w.r.Kind) {
		in.Namespace = w.namespace
	}
	if as.Kind != w.r.Kind {
		for _, object := range []*map[string]any{&in.Object, &in.OldObject} {
			if *object == nil {
				continue
			}
			var err error
			if *object, err = w.r.Convert(w.ctx, *object, as.Kind); err != nil {
				return in, err
			}
		}
	}
	w.views = append(w.views, view{as, in})
	return in, nil
}

func isNamespace(kind meta.GroupVersionKind) bool {
	return kind == meta.GroupVersionKind{Version: "v1", Kind: "Namespace"}
}

// namespace returns the namespace of the request, as far as policies see it.
func (w *walk) namespace(ctx context.Context) (map[string]any, error) {
	if w.r.Server == nil {
		return nil, nil //nolint:nilnil // nothing is null
	}
	object, err := w.r.Server.Get(ctx, meta.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "", w.r.Namespace)
	switch {
	case status.ReasonOf(err) == meta.ReasonNotFound:
		return nil, nil //nolint:nilnil // nothing is null
	case err != nil:
		return nil, err
	}
	object = maps.Clone(object)
	metadata := maps.Clone(tree.Map(object, "metadata"))
	for _, hidden := range []string{"managedFields", "ownerReferences", "selfLink"} {
		delete(metadata, hidden)
	}
	object["metadata"] = metadata
	return object, nil
}

// description is the value of the variable request.
// Source: POL-04.
func (w *walk) description(as admission.Form) map[string]any {
	r := w.r
	kind := func(k meta.GroupVersionKind) any {
		return map[string]any{"group": k.Group, "version": k.Version, "kind": k.Kind}
	}
	resource := func(v meta.GroupVersionResource) any {
		return map[string]any{"group": v.Group, "version": v.Version, "resource": v.Resource}
	}
	out := map[string]any{
		"kind": kind(as.Kind), "resource": resource(as.Resource),
		"requestKind": kind(r.RequestKind), "requestResource": resource(r.RequestResource),
		"operation": string(r.Operation), "dryRun": r.DryRun, "userInfo": userInfo(r),
	}
	for name, text := range map[string]string{
		"subResource": r.Subresource, "requestSubResource": r.RequestSubresource, "name": r.Name, "namespace": r.Namespace,
	} {
		if text != "" {
			out[name] = text
		}
	}
	if options, err := json.TreeOf(r.Options); err == nil && options != nil {
		out["options"] = options
	}
	return out
}

func userInfo(r *admission.Request) map[string]any {
	out := map[string]any{}
	if r.User.Name != "" {
		out["username"] = r.User.Name
	}
	if r.User.UID != "" {
		out["uid"] = r.User.UID
	}
	if len(r.User.Groups) > 0 {
		out["groups"] = list(r.User.Groups)
	}
	if len(r.User.Extra) > 0 {
		extra := make(map[string]any, len(r.User.Extra))
		for key, values := range r.User.Extra {
			extra[key] = list(values)
		}
		out["extra"] = extra
	}
	return out
}

func list(texts []string) []any {
	out := make([]any, len(texts))
	for i, text := range texts {
		out[i] = text
	}
	return out
}
