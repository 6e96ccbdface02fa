package registry

import (
	"context"
	"errors"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// Action is a POST to a subresource: a request to do something with an object, such as the eviction of a pod (PATH-21). It
// has been authorized as the verb create on resource/subresource, and admitted.
type Action struct {
	Engine *Engine // for what is to be changed or deleted
	Target Target  // with its name and subresource
	Object Tree    // the object as it is stored
	Body   Tree    // what was sent; empty when nothing was. Its fields are as nobody has checked them
	DryRun bool    // nothing may be changed
}

// act runs the action of a subresource. What is sent has no schema: it is a JSON object, and where it names the object, it
// names that of the URL.
func (e *Engine) act(ctx context.Context, served *Served, sub *Subresource, t Target, body []byte, o WriteOptions) (*Result, error) {
	of := t
	of.Subresource = ""
	entry, err := e.Get(ctx, of, ListRequest{})
	if err != nil {
		return nil, err
	}
	object, err := decodeObject(entry.AppendJSON(nil))
	if err != nil {
		return nil, status.Internal(err)
	}
	sent := Tree{}
	if len(body) > 0 {
		if sent, err = decodeAction(body); err != nil {
			return nil, status.BadRequest("the body of the request cannot be read: %v", err)
		}
	}
	if err := checkActionNames(sent, t); err != nil {
		return nil, err
	}
	if sent, err = e.admitAction(ctx, served.Resource, t, sent, o.DryRun); err != nil {
		return nil, err
	}
	answer, err := sub.Act(ctx, Action{Engine: e, Target: t, Object: object, Body: sent, DryRun: o.DryRun})
	if err != nil {
		return nil, status.From(err)
	}
	if answer == nil {
		answer = Tree{"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": meta.StatusSuccess}
	}
	out, err := json.AppendTree(nil, answer)
	if err != nil {
		return nil, status.Internal(err)
	}
	return &Result{Document: out, Created: true}, nil
}

func decodeAction(text []byte) (Tree, error) {
	tree, err := json.DecodeTree(text, json.TreeOptions{})
	if err != nil {
		return nil, err
	}
	object, ok := tree.(map[string]any)
	if !ok {
		return nil, errors.New("it is not a JSON object")
	}
	return object, nil
}

// checkActionNames refuses a body that speaks of another object than the URL does.
func checkActionNames(sent Tree, t Target) error {
	if name := text(sent, "metadata", "name"); name != "" && name != t.Name {
		return status.BadRequest("the name of the object (%q) does not match the name on the URL (%q)", name, t.Name)
	}
	if ns := text(sent, "metadata", "namespace"); ns != "" && ns != t.Namespace {
		return status.BadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

// admitAction asks admission about what was sent, as a creation through the subresource.
func (e *Engine) admitAction(ctx context.Context, r *Resource, t Target, sent Tree, dry bool) (Tree, error) {
	if e.cfg.Admission.Empty() {
		return sent, nil
	}
	request := &admission.Request{
		Operation: admission.Create, Kind: r.GroupVersionKind(), Resource: r.GroupVersionResource(), Subresource: t.Subresource,
		Namespace: t.Namespace, Name: t.Name, Object: sent, Options: meta.CreateOptions{DryRun: dryRun(dry)}, DryRun: dry,
	}
	request.User, _ = authn.UserFrom(ctx)
	changed, err := e.cfg.Admission.Mutate(ctx, request)
	if err != nil {
		return nil, err
	}
	request.Object = changed
	return changed, e.cfg.Admission.Validate(ctx, request)
}
