package webhook

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/admission/match"
	"github.com/kindwright/kindwright/internal/hookcontext"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/patch"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/status"
)

// mutator asks the mutating webhooks of one server.
type mutator struct{ index *index }

// Mutate asks the webhooks in order. Each is told of the object as those before have left it. When one
// has changed the object, those before it that want to be asked again are, once.
// Source: WHK-11, WHK-12.
func (m *mutator) Mutate(ctx context.Context, r *admission.Request) (map[string]any, error) {
	now := m.index.current.Load()
	if hookcontext.Starts(ctx) || !now.any(r) {
		return admission.Allowed(r)
	}
	w := &changing{walk: m.index.walk(ctx, r, true)}
	for at, h := range now.hooks {
		if err := w.visit(h, at); err != nil {
			return nil, err
		}
	}
	w.round = 1 // a change in it lets later webhooks be asked again, too
	for at, h := range now.hooks {
		if w.again[h] {
			if err := w.visit(h, at); err != nil {
				return nil, err
			}
		}
	}
	if w.r == r || json.Equal(w.r.Object, r.Object) {
		return admission.Allowed(r)
	}
	return w.r.Object, nil
}

// changing is a walk that changes the object of its request.
type changing struct {
	*walk
	waiting []*hook        // were asked, and want to be asked again when the object changes
	again   map[*hook]bool // are to be asked again
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
		if w.again == nil {
			w.again = map[*hook]bool{}
		}
		for _, before := range w.waiting {
			w.again[before] = true
		}
		w.waiting = nil
	}
	if h.Again {
		w.waiting = append(w.waiting, h)
	}
	return nil
}

// invoke calls a webhook and applies its patch.
func (w *changing) invoke(h asked) (changed bool, err error) {
	in, err := match.Input(w.ctx, w.r, h.form, nil)
	if err != nil {
		return false, internal(err)
	}
	v, err := w.call(h, &in)
	if err != nil {
		return false, err
	}
	defer func() {
		if err == nil {
			w.record(h, changed, v.patch)
		}
	}()
	if len(v.patch) == 0 || strings.TrimSpace(string(v.patch)) == "[]" {
		return false, nil
	}
	if w.r.Object == nil {
		return false, internal(fmt.Errorf("admission webhook %q attempted to modify the object, which is not supported for this operation", h.Name))
	}
	out, err := w.patched(in.Object, v.patch, h)
	if err != nil {
		return false, internal(fmt.Errorf("admission webhook %q: %w", h.Name, err))
	}
	if json.Equal(in.Object, out) {
		return false, nil
	}
	if h.form.Kind != w.r.Kind {
		if out, err = w.r.Convert(w.ctx, out, w.r.Kind); err != nil {
			return false, internal(err)
		}
	}
	next := *w.r
	next.Object = out
	w.r = &next
	return true, nil
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
	out, err := patch.JSON(object, text, patch.Options{Kind: h.form.Kind.GroupKind(), Name: w.r.Name, ReplaceAdds: true})
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
