package scheduler

import (
	"slices"
	"strconv"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// NodeAffinityArgs are for the plugin that looks which nodes a pod wants. Source: SCHED-24.
type NodeAffinityArgs struct {
	meta.TypeMeta

	// AddedAffinity holds for all pods of the profile, beside what they say themselves.
	AddedAffinity *NodeAffinity `json:"addedAffinity,omitempty"`
}

// NodeAffinity says which nodes are possible and which are better, as in the specification of a Pod.
type NodeAffinity struct {
	Required  *NodeSelector             `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`
	Preferred []PreferredSchedulingTerm `json:"preferredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// NodeSelector selects the nodes that one of its terms selects.
type NodeSelector struct {
	NodeSelectorTerms []NodeSelectorTerm `json:"nodeSelectorTerms"`
}

// PreferredSchedulingTerm adds Weight to the score of nodes.
type PreferredSchedulingTerm struct {
	Weight     int32            `json:"weight"`
	Preference NodeSelectorTerm `json:"preference"`
}

// NodeSelectorTerm selects the nodes for which all requirements hold. Without requirements it selects none.
type NodeSelectorTerm struct {
	MatchExpressions []NodeSelectorRequirement `json:"matchExpressions,omitempty"`
	MatchFields      []NodeSelectorRequirement `json:"matchFields,omitempty"`
}

// NodeSelectorRequirement is about a label of a node, or about its name.
type NodeSelectorRequirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values,omitempty"`
}

func (a *NodeAffinityArgs) defaults() {}

func (a *NodeAffinityArgs) check(at status.Field) {
	if a.AddedAffinity == nil {
		return
	}
	added := at.Child("addedAffinity")
	if r := a.AddedAffinity.Required; r != nil {
		terms := added.Child("requiredDuringSchedulingIgnoredDuringExecution").Child("nodeSelectorTerms")
		for i, term := range r.NodeSelectorTerms {
			term.check(terms.Index(i))
		}
	}
	preferred := added.Child("preferredDuringSchedulingIgnoredDuringExecution")
	for i, term := range a.AddedAffinity.Preferred {
		if term.Weight != 0 { // as in Kubernetes: a term that counts nothing may be anything
			term.Preference.check(preferred.Index(i))
		}
	}
}

func (t NodeSelectorTerm) check(at status.Field) {
	for i, r := range t.MatchExpressions {
		r.checkLabel(at.Child("matchExpressions").Index(i))
	}
	for i, r := range t.MatchFields {
		one := at.Child("matchFields").Index(i)
		switch {
		case r.Operator != "In" && r.Operator != "NotIn":
			one.Child("operator").NotSupported(r.Operator, "In", "NotIn")
		case len(r.Values) != 1:
			one.Child("values").Invalid(r.Values, "must have one element")
		}
	}
}

func (r NodeSelectorRequirement) checkLabel(at status.Field) {
	operators := []string{"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"}
	values := at.Child("values")
	if !slices.Contains(operators, r.Operator) {
		at.Child("operator").NotSupported(r.Operator, operators...)
		return
	}
	checkLabelKey(at.Child("key"), r.Key)
	switch r.Operator {
	case "In", "NotIn":
		if len(r.Values) == 0 {
			values.Invalid(r.Values, "for 'in', 'notin' operators, values set can't be empty")
		}
	case "Exists", "DoesNotExist":
		if len(r.Values) != 0 {
			values.Invalid(r.Values, "values set must be empty for exists and does not exist")
		}
	default:
		if len(r.Values) != 1 {
			values.Invalid(r.Values, "for 'Gt', 'Lt' operators, exactly one value is required")
		}
	}
	for i, v := range r.Values {
		if r.Operator == "Gt" || r.Operator == "Lt" {
			if _, err := strconv.ParseInt(v, 10, 64); err != nil {
				values.Index(i).Invalid(v, "for 'Gt', 'Lt' operators, the value must be an integer")
			}
		}
		if problem := meta.CheckLabelValue(v); problem != "" {
			values.Index(i).Invalid(v, problem)
		}
	}
}
