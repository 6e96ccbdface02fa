package webhook

import (
	"context"
	"sync"
	"time"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/admission/match"
	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/hookcontext"
	"github.com/kindwright/kindwright/internal/request"
)

// validator asks the validating webhooks of one server.
type validator struct{ index *index }

// Validate asks all webhooks at the same time. All must allow the write; the first in order that does
// not gives the answer.
// Source: WHK-12.
func (v *validator) Validate(ctx context.Context, r *admission.Request) error {
	hooks := v.index.hooks(r)
	if hookcontext.Starts(ctx) || len(hooks) == 0 {
		return nil
	}
	w := v.index.walk(ctx, r, false)
	var all []asked
	views := map[admission.Form]*cel.AdmissionInput{}
	for at, h := range hooks {
		one, ok, err := w.concerned(h, at)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		all = append(all, one)
		if views[one.form] == nil {
			in, err := match.Input(ctx, r, one.form, nil)
			if err != nil {
				return internal(err)
			}
			views[one.form] = &in
		}
	}
	problems := make([]error, len(all))
	start := time.Now()
	var calls sync.WaitGroup
	for i, h := range all {
		calls.Go(func() {
			began := time.Now()
			problems[i] = w.decide(h, w.judge(h, views[h.form]), began)
		})
	}
	calls.Wait()
	if len(all) > 0 {
		request.ExchangeFrom(ctx).Spend(request.Validating, time.Since(start))
	}
	for _, err := range problems {
		if err != nil {
			return err
		}
	}
	return nil
}

// judge asks a webhook in a goroutine of its own.
func (w *walk) judge(h asked, in *cel.AdmissionInput) (err error) {
	defer guard.Recover(&err, "the call of a webhook")
	_, err = w.call(h, in)
	return err
}
