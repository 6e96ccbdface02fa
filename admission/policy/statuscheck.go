package policy

import (
	"regexp"
	"strings"

	"github.com/kindwright/kindwright/internal/jsonpath"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// Limits of conditions.
const (
	maxConditionReason  = 1 << 10 // bytes
	maxConditionMessage = 32 << 10
)

// Validate reports what is wrong with a status that somebody writes.
//
// Source: POL-06.
func (s *ValidatingAdmissionPolicyStatus) Validate(f *status.Fields) {
	at := f.At("status")
	if s.TypeChecking != nil {
		for i, w := range s.TypeChecking.ExpressionWarnings {
			at := at.Child("typeChecking").Child("expressionWarnings").Index(i)
			if w.Warning == "" {
				at.Child("warning").Required("")
			}
			ref := strings.TrimSpace(w.FieldRef)
			if ref == "" {
				at.Child("fieldRef").Required("")
			} else if _, err := jsonpath.Parse("{" + ref + "}"); err != nil {
				at.Child("fieldRef").Invalid(ref, "invalid JSONPath: "+err.Error())
			}
		}
	}
	seen := map[string]bool{}
	for i := range s.Conditions {
		c, at := &s.Conditions[i], at.Child("conditions").Index(i)
		if seen[c.Type] {
			at.Child("type").Duplicate(c.Type)
		}
		seen[c.Type] = true
		validateCondition(c, at)
	}
}

func validateCondition(c *meta.Condition, at status.Field) {
	if problem := meta.CheckLabelKey(c.Type); problem != "" {
		at.Child("type").Invalid(c.Type, problem)
	}
	switch c.Status {
	case meta.ConditionTrue, meta.ConditionFalse, meta.ConditionUnknown:
	default:
		at.Child("status").NotSupported(string(c.Status), string(meta.ConditionFalse), string(meta.ConditionTrue), string(meta.ConditionUnknown))
	}
	if c.ObservedGeneration < 0 {
		at.Child("observedGeneration").Invalid(c.ObservedGeneration, "must be greater than or equal to zero")
	}
	if c.LastTransitionTime.IsZero() {
		at.Child("lastTransitionTime").Required("")
	}
	switch {
	case c.Reason == "":
		at.Child("reason").Required("")
	case !conditionReason().MatchString(c.Reason):
		at.Child("reason").Invalid(c.Reason, "must consist of letters, digits, '_', ',' and ':', must start with a letter, and must not end with ',' or ':'")
	}
	if len(c.Reason) > maxConditionReason {
		at.Child("reason").TooLong(maxConditionReason)
	}
	if len(c.Message) > maxConditionMessage {
		at.Child("message").TooLong(maxConditionMessage)
	}
}

func conditionReason() *regexp.Regexp {
	return regexp.MustCompile("^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
}
