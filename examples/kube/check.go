package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// checked turns a rule without a context into a rule of registry.Kind.
func checked[T any](check func(*T, *status.Fields)) func(context.Context, *T, *status.Fields) {
	return func(_ context.Context, obj *T, f *status.Fields) { check(obj, f) }
}

// setOf returns the set of some texts.
func setOf(all []string) map[string]bool {
	out := make(map[string]bool, len(all))
	for _, s := range all {
		out[s] = true
	}
	return out
}

func updated[T any](check func(obj, old *T, f *status.Fields)) func(context.Context, *T, *T, *status.Fields) {
	return func(_ context.Context, obj, old *T, f *status.Fields) { check(obj, old, f) }
}

// byPath are the rules for updates by the status subresource, and those for all others.
func byPath[T any](byStatus, otherwise func(obj, old *T, f *status.Fields)) func(context.Context, *T, *T, *status.Fields) {
	return func(ctx context.Context, obj, old *T, f *status.Fields) {
		if registry.SubresourceFrom(ctx) == "status" {
			byStatus(obj, old, f)
		} else if otherwise != nil {
			otherwise(obj, old, f)
		}
	}
}

// oneOf reports a value that is not allowed.
func oneOf[S ~string](at status.Field, value S, allowed ...S) bool {
	if slices.Contains(allowed, value) {
		return true
	}
	names := make([]string, len(allowed))
	for i, a := range allowed {
		names[i] = string(a)
	}
	at.NotSupported(string(value), names...)
	return false
}

// notNegative reports a number below zero.
func notNegative[N ~int32 | ~int64](at status.Field, n *N) {
	if n != nil && *n < 0 {
		at.Invalid(int64(*n), "must be greater than or equal to 0")
	}
}

// isPort reports a number that is not a valid port.
func isPort(at status.Field, n int32) {
	if n < 1 || n > 65535 {
		at.Invalid(n, "must be between 1 and 65535, inclusive")
	}
}

// isPortOrName reports a value that is neither a port number nor a port name.
func isPortOrName(at status.Field, p intstr.IntOrString) {
	if p.Type == intstr.Int {
		isPort(at, p.IntVal)
	} else if why := validation.IsValidPortName(p.StrVal); len(why) > 0 {
		at.Invalid(p.StrVal, why[0])
	}
}

// isSegment reports a text that cannot be part of a path.
func isSegment(at status.Field, s string) {
	if s == "" {
		at.Required("")
	} else if why := meta.CheckPathSegment(s); why != "" {
		at.Invalid(s, why)
	}
}

// isLabel reports a text that is not a DNS label.
func isLabel(at status.Field, s string) {
	if s == "" {
		at.Required("")
	} else if why := meta.CheckDNSLabel(s); why != "" {
		at.Invalid(s, why)
	}
}

// isSubdomain reports a text that cannot be the name of most objects.
func isSubdomain(at status.Field, s string) {
	if s == "" {
		at.Required("")
	} else if why := meta.CheckDNSSubdomain(s); why != "" {
		at.Invalid(s, why)
	}
}

// unique reports duplicate names.
type unique map[string]bool

func (u unique) check(at status.Field, name string) {
	if name != "" && u[name] {
		at.Duplicate(name)
	}
	u[name] = true
}

// checkAny is check for a list in which the second empty name is a duplicate, too. It returns whether the name is new.
func (u unique) checkAny(at status.Field, name string) bool {
	if u[name] {
		at.Duplicate(name)
		return false
	}
	u[name] = true
	return true
}

// checkSelector reports errors in a selector.
func checkSelector(at status.Field, s *metav1.LabelSelector) {
	if s == nil {
		return
	}
	for _, name := range sortedNames(s.MatchLabels) {
		checkLabel(at.Child("matchLabels"), name, s.MatchLabels[name])
	}
	for i, e := range s.MatchExpressions {
		one := at.Child("matchExpressions").Index(i)
		switch e.Operator {
		case metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn:
			if len(e.Values) == 0 {
				one.Child("values").Required("must be specified when `operator` is 'In' or 'NotIn'")
			}
		case metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist:
			if len(e.Values) > 0 {
				one.Child("values").Forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
			}
		default:
			one.Child("operator").Invalid(string(e.Operator), "not a valid selector operator")
		}
		for j, v := range e.Values {
			if why := meta.CheckLabelValue(v); why != "" {
				one.Child("values").Index(j).Invalid(v, why)
			}
		}
		if why := meta.CheckLabelKey(e.Key); why != "" {
			one.Child("key").Invalid(e.Key, why)
		}
		for j, v := range e.Values {
			if why := meta.CheckLabelValue(v); why != "" {
				one.Child("values").Index(j).Invalid(v, why)
			}
		}
	}
}

func checkLabel(at status.Field, name, value string) {
	if why := meta.CheckLabelKey(name); why != "" {
		at.Invalid(name, why)
	}
	if why := meta.CheckLabelValue(value); why != "" {
		at.Invalid(value, why)
	}
}

// checkTaintLabel checks the key and the value of a taint, which are those of a label.
func checkTaintLabel(key, value string, at status.Field) {
	if why := meta.CheckLabelKey(key); why != "" {
		at.Child("key").Invalid(key, why)
	}
	if why := meta.CheckLabelValue(value); why != "" {
		at.Child("value").Invalid(value, why)
	}
}

func checkLabels(at status.Field, all map[string]string) {
	for _, name := range sortedNames(all) {
		checkLabel(at, name, all[name])
	}
}

// matches requires that a selector matches the labels of its pod template. It reports whether it could read the selector.
func matches(spec status.Field, s *metav1.LabelSelector, of map[string]string, emptyIsWrong bool) (readable bool) {
	at := spec.Child("selector")
	switch {
	case s == nil:
		at.Required("")
		spec.Child("template").Child("metadata").Child("labels").Invalid(of, "`selector` does not match template `labels`")
		return true
	case emptyIsWrong && len(s.MatchLabels)+len(s.MatchExpressions) == 0:
		at.Invalid(s, "empty selector is invalid")
		return true
	}
	checkSelector(at, s)
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		at.Invalid(s, "invalid label selector")
		return false
	}
	if !selector.Matches(labels.Set(of)) {
		spec.Child("template").Child("metadata").Child("labels").Invalid(of, "`selector` does not match template `labels`")
	}
	return true
}

// same reports a change of an immutable field.
func same(at status.Field, equal bool, v any) {
	if !equal {
		at.Invalid(v, "field is immutable")
	}
}

// percentOrCount reads a percentage or a number. It returns the number, and whether it is wrong.
func percentOrCount(at status.Field, v *intstr.IntOrString) {
	if v == nil {
		return
	}
	if v.Type == intstr.Int {
		if v.IntVal < 0 {
			at.Invalid(v.IntVal, "must be greater than or equal to 0")
		}
		return
	}
	if n, ok := percentage(at, v.StrVal); ok && n > 100 {
		at.Invalid(v.StrVal, "must not be greater than 100%")
	}
}

// percentOrMore is percentOrCount for percentages that may be beyond a hundred.
func percentOrMore(at status.Field, v *intstr.IntOrString) {
	if v != nil && v.Type == intstr.String {
		percentage(at, v.StrVal)
		return
	}
	percentOrCount(at, v)
}

// percentage reads a percentage.
func percentage(at status.Field, text string) (n int, ok bool) {
	if _, err := fmt.Sscanf(text, "%d%%", &n); err != nil || fmt.Sprintf("%d%%", n) != text || n < 0 {
		at.Invalid(text, "must be a whole number, or a percentage such as 30%")
		return 0, false
	}
	return n, true
}

// isZero reports whether a quantity is zero.
func isZero(v *intstr.IntOrString) bool {
	return v != nil && (v.Type == intstr.Int && v.IntVal == 0 || v.Type == intstr.String && strings.TrimLeft(v.StrVal, "0") == "%")
}

// checkConditions reports what is wrong with conditions of the common form.
func checkConditions(f *status.Fields, all []metav1.Condition, path ...string) {
	addErrors(f, metavalidation.ValidateConditions(all, field.NewPath(path[0], path[1:]...)))
}

// distinctTypes reports conditions of a status that have a type twice.
func distinctTypes[C any](all []C, kind func(C) string, f *status.Fields) {
	seen := distinct[string]{}
	for i, c := range all {
		seen.check(kind(c), f.At("status", "conditions").Index(i).Child("type"))
	}
}

// addErrors adds what a function of Kubernetes' libraries has found.
func addErrors(f *status.Fields, all field.ErrorList) {
	for _, e := range all {
		f.Add(status.FieldError{Type: meta.CauseType(e.Type), Field: e.Field, Value: e.BadValue, Detail: e.Detail})
	}
}
