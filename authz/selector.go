package authz

import (
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// LabelSelectorAttributes is the label selector of the action in question, either as text or as
// requirements.
type LabelSelectorAttributes struct {
	RawSelector  string                          `json:"rawSelector,omitempty" protobuf:"bytes,1,opt,name=rawSelector" doc:"The selector in the form of a query parameter."`
	Requirements []meta.LabelSelectorRequirement `json:"requirements,omitempty" protobuf:"bytes,2,rep,name=requirements" list:"atomic" doc:"The selector taken apart; all must hold."`
}

// FieldSelectorAttributes is the field selector of the action in question, either as text or as
// requirements.
type FieldSelectorAttributes struct {
	RawSelector  string                     `json:"rawSelector,omitempty" protobuf:"bytes,1,opt,name=rawSelector" doc:"The selector in the form of a query parameter."`
	Requirements []FieldSelectorRequirement `json:"requirements,omitempty" protobuf:"bytes,2,rep,name=requirements" list:"atomic" doc:"The selector taken apart; all must hold."`
}

// FieldSelectorRequirement is one condition of FieldSelectorAttributes. Operator is In, NotIn,
// Exists or DoesNotExist.
type FieldSelectorRequirement struct {
	Key      string        `json:"key" protobuf:"bytes,1,opt,name=key" doc:"The field."`
	Operator meta.Operator `json:"operator" protobuf:"bytes,2,opt,name=operator" doc:"In, NotIn, Exists or DoesNotExist."`
	Values   []string      `json:"values,omitempty" protobuf:"bytes,3,rep,name=values" list:"atomic" doc:"The values, for In and NotIn alone."`
}

// checkForms rejects a selector that uses both forms, because it is undefined which one counts, and one
// that uses none.
func checkForms(raw string, requirements int, at status.Field) {
	if raw == "" && requirements == 0 {
		at.Child("requirements").Required("when " + at.Path().String() + " is specified, requirements or rawSelector is required")
	}
	if raw != "" && requirements > 0 {
		at.Child("rawSelector").Invalid(raw, "may not specified at the same time as requirements") // so Kubernetes says it
	}
	if requirements > meta.MaxRequirements {
		at.Child("requirements").TooMany(requirements, meta.MaxRequirements)
	}
}

// coverage says how much of a selector was read. What is left out makes the question one about more,
// so it never allows too much. It keeps older servers of use to newer clients.
type coverage int

const (
	whole coverage = iota
	partly
	nothing
)

// text says what is missing, or "".
func (c coverage) text(of string) string {
	switch c {
	case partly:
		return "spec.resourceAttributes." + of + " partially ignored due to parse error"
	case nothing:
		return "spec.resourceAttributes." + of + " ignored due to parse error"
	}
	return ""
}

// isKnown reports whether an operator is one of documents.
func isKnown(op meta.Operator) bool {
	return op == meta.In || op == meta.NotIn || op == meta.Exists || op == meta.DoesNotExist
}

func covered(kept, all int) coverage {
	switch kept {
	case all:
		return whole
	case 0:
		return nothing
	}
	return partly
}

// selector converts the form of documents. A nil selector matches everything.
func (s *LabelSelectorAttributes) selector(at status.Field) (meta.Selector, coverage) {
	if s == nil {
		return meta.Selector{}, whole
	}
	checkForms(s.RawSelector, len(s.Requirements), at)
	if len(s.Requirements) == 0 {
		out, err := meta.ParseSelector(s.RawSelector)
		if err != nil {
			return meta.Selector{}, nothing
		}
		return out, whole
	}
	var known []meta.LabelSelectorRequirement
	sound := true
	for i, r := range s.Requirements[:min(len(s.Requirements), meta.MaxRequirements)] {
		sound = checkLabels(r, at.Child("requirements").Index(i)) && sound
		if isKnown(r.Operator) {
			known = append(known, r)
		}
	}
	if !sound {
		return meta.Selector{}, nothing
	}
	out, err := meta.SelectorFrom(&meta.LabelSelector{MatchExpressions: known})
	if err != nil {
		at.Child("requirements").Invalid(len(s.Requirements), err.Error())
	}
	return out, covered(len(known), len(s.Requirements))
}

// checkLabels reports whether a requirement is right, and says what is not. Nobody knows how many
// values an operator of the future takes.
func checkLabels(r meta.LabelSelectorRequirement, at status.Field) bool {
	sound := !isKnown(r.Operator) || checkCount(r.Operator, len(r.Values), at)
	if why := meta.CheckLabelKey(r.Key); why != "" {
		at.Child("key").Invalid(r.Key, why)
		sound = false
	}
	for i, value := range r.Values {
		if why := meta.CheckLabelValue(value); why != "" {
			at.Child("values").Index(i).Invalid(value, why)
			sound = false
		}
	}
	return sound
}

// checkCount reports whether a requirement has values if its operator takes some, and none otherwise.
func checkCount(op meta.Operator, values int, at status.Field) bool {
	wants := op == meta.In || op == meta.NotIn
	switch {
	case wants && values == 0:
		at.Child("values").Required("must be specified when `operator` is 'In' or 'NotIn'")
	case !wants && values > 0:
		at.Child("values").Forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
	default:
		return true
	}
	return false
}

func (s *FieldSelectorAttributes) selector(at status.Field) (meta.FieldSelector, coverage) {
	if s == nil {
		return meta.FieldSelector{}, whole
	}
	checkForms(s.RawSelector, len(s.Requirements), at)
	if len(s.Requirements) == 0 {
		out, err := meta.ParseFieldSelector(s.RawSelector)
		if err != nil {
			return meta.FieldSelector{}, nothing
		}
		return out, whole
	}
	var all []meta.FieldRequirement
	kept := 0
	read := s.Requirements[:min(len(s.Requirements), meta.MaxRequirements)]
	for i, r := range read {
		some := r.requirements(at.Child("requirements").Index(i))
		if all = append(all, some...); len(some) > 0 {
			kept++
		}
	}
	out, err := meta.NewFieldSelector(all...)
	if err != nil {
		at.Child("requirements").Invalid(len(s.Requirements), err.Error())
	}
	return out, covered(kept, len(read))
}

// requirements converts r as far as field selectors can express it. They cannot express a choice of
// several values or the presence of a field. Leaving these out asks for more rights than needed, so
// it never allows too much.
func (r FieldSelectorRequirement) requirements(at status.Field) []meta.FieldRequirement {
	if r.Key == "" {
		at.Child("key").Required("must be specified")
	}
	if !isKnown(r.Operator) || !checkCount(r.Operator, len(r.Values), at) || r.Key == "" {
		return nil
	}
	switch {
	case r.Operator == meta.NotIn:
		var out []meta.FieldRequirement
		for _, v := range r.Values {
			out = append(out, meta.FieldRequirement{Field: r.Key, Op: meta.NotEquals, Value: v})
		}
		return out
	case r.Operator == meta.In && len(r.Values) == 1:
		return []meta.FieldRequirement{{Field: r.Key, Op: meta.Equals, Value: r.Values[0]}}
	}
	return nil
}
