package scheduler

import (
	"fmt"
	"slices"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// Who says how pods are spread that say nothing themselves.
const (
	SystemDefaulting = "System"
	ListDefaulting   = "List"
)

// PodTopologySpreadArgs are for the plugin that spreads pods. Source: SCHED-28.
type PodTopologySpreadArgs struct {
	meta.TypeMeta

	// DefaultConstraints hold for pods that say nothing themselves. They go with the type List.
	DefaultConstraints []TopologySpreadConstraint `json:"defaultConstraints,omitempty"`

	// DefaultingType is System, for the scheduler's own constraints, or List. Default: System.
	DefaultingType string `json:"defaultingType,omitempty"`
}

// TopologySpreadConstraint is that of the specification of a Pod.
type TopologySpreadConstraint struct {
	MaxSkew            int32    `json:"maxSkew"`
	TopologyKey        string   `json:"topologyKey"`
	WhenUnsatisfiable  string   `json:"whenUnsatisfiable"`
	LabelSelector      any      `json:"labelSelector,omitempty"`
	MinDomains         *int32   `json:"minDomains,omitempty"`
	NodeAffinityPolicy *string  `json:"nodeAffinityPolicy,omitempty"`
	NodeTaintsPolicy   *string  `json:"nodeTaintsPolicy,omitempty"`
	MatchLabelKeys     []string `json:"matchLabelKeys,omitempty"`
}

func (a *PodTopologySpreadArgs) defaults() {
	if a.DefaultingType == "" {
		a.DefaultingType = SystemDefaulting
	}
}

func (a *PodTopologySpreadArgs) check(at status.Field) {
	by := at.Child("defaultingType")
	switch types := []string{SystemDefaulting, ListDefaulting}; {
	case !slices.Contains(types, a.DefaultingType):
		by.NotSupported(a.DefaultingType, types...)
	case a.DefaultingType == SystemDefaulting && len(a.DefaultConstraints) > 0:
		by.Invalid(a.DefaultingType, "when .defaultConstraints are not empty")
	}
	seen := map[string]bool{}
	for i, c := range a.DefaultConstraints {
		one := at.Child("defaultConstraints").Index(i)
		c.check(one)
		name := fmt.Sprintf("{%s, %s}", c.TopologyKey, c.WhenUnsatisfiable)
		if seen[name] {
			one.Duplicate(name)
		}
		seen[name] = true
	}
}

func (c TopologySpreadConstraint) check(at status.Field) {
	if c.MaxSkew <= 0 {
		at.Child("maxSkew").Invalid(c.MaxSkew, "not in valid range (0, inf)")
	}
	if c.TopologyKey == "" {
		at.Child("topologyKey").Required("can not be empty")
	} else {
		checkLabelKey(at.Child("topologyKey"), c.TopologyKey)
	}
	when := at.Child("whenUnsatisfiable")
	switch c.WhenUnsatisfiable {
	case "DoNotSchedule", "ScheduleAnyway":
	case "":
		when.Required("can not be empty")
	default:
		when.NotSupported(c.WhenUnsatisfiable, "DoNotSchedule", "ScheduleAnyway")
	}
	if c.LabelSelector != nil {
		at.Child("labelSelector").Forbidden("constraint must not define a selector, as they deduced for each pod")
	}
}
