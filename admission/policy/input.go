package policy

import (
	"context"
	"maps"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/admission/match"
	"github.com/kindwright/kindwright/cel"
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
	in, err := match.Input(w.ctx, w.r, as, w.ask)
	if err != nil {
		return in, err
	}
	if w.r.Namespace != "" && !isNamespace(w.r.Kind) {
		in.Namespace = w.namespace
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
