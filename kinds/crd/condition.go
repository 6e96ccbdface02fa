package crd

import (
	"slices"
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

// is reports whether a condition is True.
func (c *CustomResourceDefinition) is(condition string) bool {
	return slices.ContainsFunc(c.Status.Conditions, func(have CustomResourceDefinitionCondition) bool {
		return have.Type == condition && have.Status == "True"
	})
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
