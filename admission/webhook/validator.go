package webhook

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/hookcontext"
	"github.com/kindwright/kindwright/internal/request"
)

// validator asks the validating webhooks of one server.
type validator struct{ index *index }

// Concerns reports whether a webhook is about a request, as far as its objects do not matter.
func (v *validator) Concerns(r *admission.Request) bool { return v.index.concerns(r) }

// Close closes the connections to the webhooks.
func (v *validator) Close() error {
	v.index.close()
	return nil
}

// Validate asks all webhooks at the same time. All must allow the write; the first in order that does
// not gives the answer.
// Source: WHK-12.
func (v *validator) Validate(ctx context.Context, r *admission.Request) error {
	hooks := v.index.hooks(r)
	if hookcontext.IsExempt(ctx) || len(hooks) == 0 {
		return nil
	}
	w := v.index.walk(ctx, r, false)
	var all []question
	var views []*told // by form, of which there is mostly one
	for at, h := range hooks {
		one, ok, err := w.concerned(h, at)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		i := slices.IndexFunc(views, func(t *told) bool { return t.form == one.form })
		if i < 0 {
			t, err := tell(ctx, r, one.form)
			if err != nil {
				return err
			}
			i, views = len(views), append(views, t)
		}
		one.at = len(all) // audit records count those that are asked, and those of mutating webhooks count all
		all = append(all, question{one, views[i]})
	}
	problems := make([]error, len(all))
	start := time.Now()
	var calls sync.WaitGroup
	for i, h := range all {
		calls.Go(func() {
			began := time.Now()
			problems[i] = w.decide(h.asked, w.judge(h), began)
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

// question is what one webhook is asked.
type question struct {
	asked
	about *told
}

// judge asks a webhook in a goroutine of its own.
func (w *walk) judge(q question) (err error) {
	defer guard.Recover(&err, "the call of a webhook")
	_, err = w.call(q.asked, q.about)
	return err
}
