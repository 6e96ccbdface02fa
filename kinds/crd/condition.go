package crd

import (
	"slices"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
)

// setCondition adds or replaces a condition. It reports whether that changed anything. The time of the
// transition stays where the status does.
func (c *CustomResourceDefinition) setCondition(now time.Time, to CustomResourceDefinitionCondition) bool {
	to.LastTransitionTime = meta.NewTime(now)
	i := slices.IndexFunc(c.Status.Conditions, func(have CustomResourceDefinitionCondition) bool { return have.Type == to.Type })
	if i < 0 {
		c.Status.Conditions = append(slices.Clone(c.Status.Conditions), to)
		return true
	}
	have := c.Status.Conditions[i]
	if have.Status == to.Status {
		to.LastTransitionTime = have.LastTransitionTime
	}
	if have == to {
		return false
	}
	c.Status.Conditions = slices.Clone(c.Status.Conditions)
	c.Status.Conditions[i] = to
	return true
}

// dropCondition removes a condition.
func (c *CustomResourceDefinition) dropCondition(name string) {
	if c.condition(name) != nil {
		c.Status.Conditions = slices.DeleteFunc(slices.Clone(c.Status.Conditions), func(have CustomResourceDefinitionCondition) bool { return have.Type == name })
	}
}

// condition returns a condition, or nil.
func (c *CustomResourceDefinition) condition(name string) *CustomResourceDefinitionCondition {
	i := slices.IndexFunc(c.Status.Conditions, func(have CustomResourceDefinitionCondition) bool { return have.Type == name })
	if i < 0 {
		return nil
	}
	return &c.Status.Conditions[i]
}

// is reports whether a condition is True.
func (c *CustomResourceDefinition) is(condition string) bool {
	have := c.condition(condition)
	return have != nil && have.Status == "True"
}

// approvalCondition says whether a definition in a group of Kubernetes is approved. It is nil for
// other groups.
//
// Source: CRD-05, CRD-06.
func (c *CustomResourceDefinition) approvalCondition() *CustomResourceDefinitionCondition {
	if !isProtected(c.Spec.Group) {
		return nil
	}
	state, message := approvalOf(c)
	out := CustomResourceDefinitionCondition{Type: APIApproved, Status: "False", Message: message}
	switch state {
	case approved:
		out.Status, out.Reason = "True", "ApprovedAnnotation"
	case approvalBypassed:
		out.Reason = "UnapprovedAnnotation"
	case approvalMissing:
		out.Reason = "MissingAnnotation"
	default:
		out.Reason = "InvalidAnnotation"
	}
	return &out
}

// structureCondition says what keeps the schemas of a stored definition from being structural, nil if
// nothing does. The schemas must be compiled. New definitions are always structural.
//
// Source: CRD-05, CRD-07.
func (d *definition) structureCondition() *CustomResourceDefinitionCondition {
	var problems []string
	if d.Spec.PreserveUnknownFields {
		problems = append(problems, "spec.preserveUnknownFields: Invalid value: true: must be false")
	}
	for i := range d.schemas {
		for _, p := range d.schemas[i].breaches {
			problems = append(problems, p.String())
		}
	}
	switch len(problems) {
	case 0:
		return nil
	case 1:
		return &CustomResourceDefinitionCondition{Type: NonStructuralSchema, Status: "True", Reason: "Violations", Message: problems[0]}
	}
	return &CustomResourceDefinitionCondition{
		Type: NonStructuralSchema, Status: "True", Reason: "Violations", Message: "[" + strings.Join(problems, ", ") + "]",
	}
}

// withCondition is setCondition on a tree. The time is that of at, which is RFC 3339.
func withCondition(conditions []any, to CustomResourceDefinitionCondition, at any) []any {
	entry := map[string]any{"type": to.Type, "status": to.Status, "reason": to.Reason, "message": to.Message, "lastTransitionTime": at}
	out := slices.Clone(conditions)
	for i, v := range out {
		if have, _ := v.(map[string]any); have["type"] == to.Type {
			if json.Equal(have["status"], to.Status) {
				entry["lastTransitionTime"] = have["lastTransitionTime"]
			}
			out[i] = entry
			return out
		}
	}
	return append(out, entry)
}
