package engine

import (
	"context"
	"errors"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
)

// act runs an action on the document that was sent. Mutating plugins see the document before the object is
// read, as in Kubernetes, so a client whom one of them refuses does not learn whether there is an object.
func (at *Resolved) act(ctx context.Context, verb string, body []byte, o registry.WriteOptions) (*registry.Result, error) {
	if len(body) == 0 {
		body = []byte("{}") // the URL alone names the action
	}
	in := at.intent(ctx, verb, body, o)
	in.handler = at.Subresource.handlers[verb]
	w := in.try()
	if err := run(ctx, sentSteps, w); err != nil {
		return nil, err
	}
	call, err := at.engine.invoke(ctx, at.acts, at.Target)
	if err != nil {
		return nil, err
	}
	if err := run(ctx, judgedSteps, w); err != nil {
		return nil, err
	}
	if err := at.requested(ctx, verb, at.acts.Kind, call.Target.Namespace, call.Target.Name); err != nil {
		return nil, err
	}
	if err := checkActionConditions(w, *call.Object); err != nil {
		return nil, err
	}
	if err := at.acceptsActions(ctx, verb, call.Target); err != nil {
		return nil, err
	}
	call.DryRun = o.DryRun
	answer, err := in.handler.Run(ctx, call, w.sent.new)
	if err != nil {
		return nil, status.From(err)
	}
	return answered(in.handler.answer.GroupVersionKind(), answer, verb == verbCreate)
}

// codeCreated is what a Status says that answers a creation.
const codeCreated = 201

// answered is documentResult for an answer that may be nil. Then a Status says that it was done.
func answered(as meta.GroupVersionKind, answer registry.Tree, created bool) (*registry.Result, error) {
	if answer == nil {
		as = meta.GroupVersionKind{Version: "v1", Kind: "Status"}
		answer = registry.Tree{"metadata": map[string]any{}, "status": meta.StatusSuccess}
		if created {
			answer["code"] = int64(codeCreated) // kube-apiserver says it of creations alone
		}
	}
	return documentResult(as, answer, created)
}

// acceptsActions asks whether the namespace accepts what an action creates: a namespace that ends gets no
// new tokens and no new bindings. Nothing is committed with the answer, so there are no conditions to keep.
func (at *Resolved) acceptsActions(ctx context.Context, verb string, t registry.Target) error {
	e, kind := at.engine, at.acts.Kind
	if verb != verbCreate || kind.ClusterScoped || e.cfg.Gate == nil {
		return nil
	}
	_, err := e.cfg.Gate.AdmitCreate(ctx, e.cfg.Store, kind.GroupResource(), t.Namespace, t.Name)
	if errors.Is(err, storage.ErrUnavailable) {
		return e.readError(kind, verb, err)
	}
	return err
}

// documentResult returns an answer that is not stored. Its kind is the promised one, unless the
// answer says that it is a Status.
func documentResult(as meta.GroupVersionKind, answer registry.Tree, created bool) (*registry.Result, error) {
	answer = tree.With(tree.With(answer, as.GroupVersion().String(), "apiVersion"), as.Kind, "kind")
	out, err := json.AppendTree(nil, answer)
	if err != nil {
		return nil, status.Internal(err)
	}
	return &registry.Result{Document: out, Created: created, Kind: as}, nil
}
