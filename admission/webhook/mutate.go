package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/internal/hookcontext"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/patch"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/status"
)

// mutator asks the mutating webhooks of one server.
type mutator struct{ index *index }

// Concerns reports whether a webhook is about a request, as far as its objects do not matter.
func (m *mutator) Concerns(r *admission.Request) bool { return m.index.concerns(r) }

// Close closes the connections to the webhooks.
func (m *mutator) Close() error {
	m.index.close()
	return nil
}

// Mutate asks the webhooks in order. Each is told of the object as those before have left it.
//
// In the second round it asks those again that want to be, if another mutator has changed the object
// since they were asked. A webhook that was not asked in the first round is not asked in the second.
// Source: WHK-11, WHK-12.
func (m *mutator) Mutate(ctx context.Context, r *admission.Request) (map[string]any, error) {
	if r.Reinvocation.Again() {
		return m.again(ctx, r)
	}
	hooks := m.index.hooks(r)
	if hookcontext.IsExempt(ctx) || len(hooks) == 0 {
		return admission.Allowed(r)
	}
	w := &changing{walk: m.index.walk(ctx, r, true), asks: &asks{}}
	for at, h := range hooks {
		if err := w.visit(h, at); err != nil {
			return nil, err
		}
	}
	if len(w.waiting)+len(w.due) > 0 {
		w.hooks, w.left = hooks, w.r.Object
		r.Reinvocation.Keep(m, w.asks)
	}
	return w.object(r)
}

// again is the second round.
func (m *mutator) again(ctx context.Context, r *admission.Request) (map[string]any, error) {
	before, _ := r.Reinvocation.State(m).(*asks)
	if before == nil {
		return admission.Allowed(r)
	}
	w := &changing{walk: m.index.walk(ctx, r, true), asks: before}
	w.round = 1
	if !json.Equal(before.left, r.Object) {
		w.changed()
	}
	for at, h := range w.hooks {
		if w.due[h] {
			if err := w.visit(h, at); err != nil {
				return nil, err
			}
		}
	}
	return w.object(r)
}

// asks is what is known of one request after the first round.
type asks struct {
	hooks   []*hook        // all that there were
	waiting []*hook        // were asked, and want to be asked again when the object changes
	due     map[*hook]bool // are to be asked again
	left    map[string]any // the object after the round
}

// changed notes that the object has changed since the webhooks that wait were asked.
func (a *asks) changed() {
	if a.due == nil {
		a.due = make(map[*hook]bool, len(a.waiting))
	}
	for _, before := range a.waiting {
		a.due[before] = true
	}
	a.waiting = nil
}

// changing is a walk that changes the object of its request.
type changing struct {
	*walk
	*asks
	about *told // what the last webhook was told, if the object is still the same
}

// object returns the object as the walk has left it.
func (w *changing) object(r *admission.Request) (map[string]any, error) {
	if w.r == r || json.Equal(w.r.Object, r.Object) {
		return admission.Allowed(r)
	}
	return w.r.Object, nil
}

// visit asks one webhook, if it is about the request. An error is the answer to the request.
func (w *changing) visit(h *hook, at int) error {
	one, ok, err := w.concerned(h, at)
	if err != nil || !ok {
		return err
	}
	began := time.Now()
	changed, err := w.invoke(one)
	request.ExchangeFrom(w.ctx).Spend(request.Mutating, time.Since(began))
	if err = w.decide(one, err, began); err != nil {
		return err
	}
	if changed {
		w.changed()
		w.r.Reinvocation.Request()
	}
	if h.Again {
		w.waiting = append(w.waiting, h)
	}
	return nil
}

// invoke calls a webhook and applies its patch. It notes what became of the object, also if that is nothing
// because the webhook failed.
func (w *changing) invoke(h asked) (changed bool, err error) {
	var applied []byte
	defer func() { w.record(h, changed, applied) }()
	if w.about == nil || w.about.form != h.form {
		if w.about, err = tell(w.ctx, w.r, h.form); err != nil {
			return false, err
		}
	}
	in := &w.about.in
	v, err := w.call(h, w.about)
	if err != nil {
		return false, err
	}
	if changes, err := isPatch(v.patch); err != nil || !changes {
		return false, err
	}
	if w.r.Object == nil {
		return false, internal(fmt.Errorf("admission webhook %q attempted to modify the object, which is not supported for this operation", h.Name))
	}
	out, err := w.patched(in.Object, v.patch, h)
	if err != nil {
		return false, internal(fmt.Errorf("admission webhook %q: %w", h.Name, err))
	}
	if applied = v.patch; json.Equal(in.Object, out) {
		return false, nil
	}
	if h.form.Kind != w.r.Kind {
		if out, err = w.r.ConvertBack(w.ctx, in.Object, out); err != nil {
			return false, internal(err)
		}
	}
	next := *w.r
	next.Object = out
	w.r, w.about = &next, nil
	return true, nil
}

// isPatch reports whether a patch has operations. An error says that it is no patch, which is a failure of the webhook.
func isPatch(text []byte) (bool, error) {
	if len(text) == 0 {
		return false, nil
	}
	tree, err := json.DecodeTree(text, json.TreeOptions{Memory: json.RequestMemory, Duplicates: func(string) {}})
	list, ok := tree.([]any)
	switch {
	case err != nil:
	case tree == nil:
		return false, nil
	case !ok:
		err = errors.New("a JSON patch must be a list of operations")
	case slices.ContainsFunc(list, func(v any) bool { _, object := v.(map[string]any); return !object && v != nil }):
		err = errors.New("an operation of a JSON patch must be an object")
	}
	if err != nil {
		return false, &failure{fmt.Errorf("received undecodable patch in webhook response: %w", err), unavailable}
	}
	return len(list) > 0, nil
}

// record notes what a webhook did. Its patch is a part of the object, and so it is noted only where
// objects are.
// Source: WHK-16.
func (w *changing) record(h asked, changed bool, patch []byte) {
	who := append(json.AppendString([]byte(`{"configuration":`), h.configuration), `,"webhook":`...)
	who = json.AppendString(who, h.Name)
	w.note("mutation", h, string(who)+`,"mutated":`+strconv.FormatBool(changed)+"}")
	if len(patch) == 0 || !request.ExchangeFrom(w.ctx).ShowsBodies() {
		return
	}
	list, err := json.DecodeTree(patch, json.TreeOptions{Memory: json.RequestMemory})
	if err != nil {
		return
	}
	if text, err := json.AppendTree(append(who, `,"patch":`...), list); err == nil {
		w.note("patch", h, string(text)+`,"patchType":"JSONPatch"}`)
	}
}

// patched returns the object with the patch of a webhook, and with the defaults of its kind.
// Source: ADM-19, WHK-14.
func (w *changing) patched(object map[string]any, text []byte, h asked) (map[string]any, error) {
	out, err := patch.JSON(object, text, patch.Options{Kind: h.form.Kind.GroupKind(), Name: w.r.Name, Lenient: true})
	if err != nil {
		return nil, err
	}
	for _, path := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}, {"metadata", "namespace"}, {"metadata", "uid"}} {
		if was := tree.Text(object, path...); was != tree.Text(out, path...) && (was != "" || path[len(path)-1] != "name") {
			return nil, fmt.Errorf("a webhook must not change %s", strings.Join(path, "."))
		}
	}
	if w.r.Server == nil || w.r.Operation == admission.Connect {
		return out, nil
	}
	out, err = w.r.Server.Default(w.ctx, out)
	if _, answer := errors.AsType[*status.Error](err); err != nil && !answer {
		err = fmt.Errorf("the defaults of the object: %w", err)
	}
	return out, err
}
