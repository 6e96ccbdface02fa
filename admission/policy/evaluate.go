package policy

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/meta"
)

// decision is what one expression of a policy says about a request.
type decision struct {
	denies  bool
	index   int // of the validation
	message string
	reason  meta.Reason
	failed  bool // the expression, which may be ignored
	took    time.Duration
}

// note is an audit annotation that a policy makes.
type note struct{ key, value string }

// verdict is what a policy says about a request, for one binding and one parameter.
type verdict struct {
	decisions []decision
	notes     []note
	rejected  []string // what annotations failed with
}

// failure is the verdict of a policy that could not be evaluated.
func failure(ignore bool, err error) verdict {
	return verdict{decisions: []decision{{denies: !ignore, failed: true, message: err.Error(), reason: meta.ReasonInvalid}}}
}

// evaluate judges one request with one parameter, if it is about the request. An error is that of the context.
func (c *compiled) evaluate(ctx context.Context, in cel.AdmissionInput, ignore bool, concerned func() (bool, error)) (verdict, error) {
	if c.failed != nil {
		return failure(ignore, c.failed), nil //nolint:nilerr // the verdict says so
	}
	run := c.scope.Run(in, cel.BindingCostLimit)
	switch ok, err := concerned(); {
	case ctx.Err() != nil:
		return verdict{}, context.Cause(ctx)
	case err != nil:
		return failure(ignore, err), nil
	case !ok:
		return verdict{}, nil
	}
	out, err := c.validate(ctx, run, ignore)
	if err != nil {
		if ctx.Err() != nil {
			return verdict{}, context.Cause(ctx)
		}
		return failure(ignore, err), nil
	}
	run.Renew(cel.BindingCostLimit)
	if err := c.annotate(ctx, run, ignore, &out); err != nil {
		if ctx.Err() != nil {
			return verdict{}, context.Cause(ctx)
		}
		return failure(ignore, err), nil
	}
	return out, nil
}

// validate evaluates the validations, and then the messages of those that do not hold.
func (c *compiled) validate(ctx context.Context, run *cel.AdmissionRun, ignore bool) (verdict, error) {
	var out verdict
	for i := range c.validations {
		v, start := &c.validations[i], time.Now()
		result, err := v.holds.evaluate(ctx, run)
		took := time.Since(start)
		switch {
		case isFatal(ctx, err):
			return out, err
		case err != nil:
			out.decisions = append(out.decisions, decision{denies: !ignore, failed: true, index: i, message: err.Error(), reason: meta.ReasonInvalid, took: took})
		case result != true:
			out.decisions = append(out.decisions, decision{denies: true, index: i, reason: v.reason, took: took})
		}
	}
	for i := range out.decisions {
		d := &out.decisions[i]
		if d.message != "" {
			continue
		}
		var err error
		if d.message, err = c.validations[d.index].text(ctx, run); err != nil {
			if ctx.Err() != nil {
				return out, err
			}
			d.failed = true
			d.message, d.denies, d.reason = "failed messageExpression: "+err.Error(), !ignore, meta.ReasonInvalid
		}
	}
	return out, nil
}

// isFatal reports whether an error ends the evaluation of the whole policy.
func isFatal(ctx context.Context, err error) bool {
	return err != nil && (errors.Is(err, cel.ErrBudget) || ctx.Err() != nil)
}

// text returns the message of a validation that does not hold. A messageExpression that fails, or makes no
// proper line, counts as absent.
func (v *validation) text(ctx context.Context, run *cel.AdmissionRun) (string, error) {
	if v.hasSays {
		said, err := v.says.evaluate(ctx, run)
		if isFatal(ctx, err) {
			return "", err
		}
		if text, ok := said.(string); ok && err == nil {
			text = strings.TrimSpace(text)
			if text != "" && len(text) <= cel.MaxMessageBytes && !strings.Contains(text, "\n") {
				return text, nil
			}
		}
	}
	if v.message != "" {
		return v.message, nil
	}
	return "failed expression: " + strings.TrimSpace(v.expression()), nil
}

func (v *validation) expression() string { return v.holds.String() }

// maxAnnotation bounds the value of an audit annotation, in bytes.
const maxAnnotation = 10 << 10

// annotate evaluates the audit annotations.
func (c *compiled) annotate(ctx context.Context, run *cel.AdmissionRun, ignore bool, out *verdict) error {
	for i := range c.annotations {
		a := &c.annotations[i]
		v, err := a.value.evaluate(ctx, run)
		switch text, ok := v.(string); {
		case isFatal(ctx, err):
			return err
		case err != nil:
			if !ignore {
				out.rejected = append(out.rejected, err.Error())
			}
		case ok:
			if text = strings.TrimSpace(text); text != "" {
				out.notes = append(out.notes, note{a.key, text[:min(len(text), maxAnnotation)]})
			}
		}
	}
	return nil
}
