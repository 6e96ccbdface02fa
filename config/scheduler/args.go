package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	documents "github.com/kindwright/kindwright/internal/config"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// DefaultPreemptionArgs are for the plugin that makes room for a pod. Source: SCHED-21, SCHED-22.
type DefaultPreemptionArgs struct {
	meta.TypeMeta

	// MinCandidateNodesPercentage and MinCandidateNodesAbsolute say on how many nodes it looks for victims:
	// the greater of both counts. Default: 10 of a hundred, and 100.
	MinCandidateNodesPercentage *int32 `json:"minCandidateNodesPercentage,omitempty"`
	MinCandidateNodesAbsolute   *int32 `json:"minCandidateNodesAbsolute,omitempty"`
}

func (a *DefaultPreemptionArgs) defaults() {
	documents.Default(&a.MinCandidateNodesPercentage, 10)
	documents.Default(&a.MinCandidateNodesAbsolute, 100)
}

func (a *DefaultPreemptionArgs) check(at status.Field) {
	percentage, absolute := at.Child("minCandidateNodesPercentage"), at.Child("minCandidateNodesAbsolute")
	share, number := of(a.MinCandidateNodesPercentage), of(a.MinCandidateNodesAbsolute)
	if share < 0 || share > 100 {
		percentage.Invalid(share, "not in valid range [0, 100]")
	}
	if number < 0 {
		absolute.Invalid(number, "not in valid range [0, inf)")
	}
	if share == 0 && number == 0 {
		percentage.Invalid(share, "cannot be zero at the same time as minCandidateNodesAbsolute")
		absolute.Invalid(number, "cannot be zero at the same time as minCandidateNodesPercentage")
	}
}

// InterPodAffinityArgs are for the plugin that looks at the pods near a pod. Source: SCHED-23.
type InterPodAffinityArgs struct {
	meta.TypeMeta

	// HardPodAffinityWeight is what an affinity counts that another pod requires. Default: 1.
	HardPodAffinityWeight *int32 `json:"hardPodAffinityWeight,omitempty"`

	// IgnorePreferredTermsOfExistingPods ignores what other pods prefer, unless the pod itself says whom it
	// wants near it.
	IgnorePreferredTermsOfExistingPods bool `json:"ignorePreferredTermsOfExistingPods"`
}

func (a *InterPodAffinityArgs) defaults() { documents.Default(&a.HardPodAffinityWeight, 1) }

func (a *InterPodAffinityArgs) check(at status.Field) {
	if w := of(a.HardPodAffinityWeight); w < 0 || w > 100 {
		at.Child("hardPodAffinityWeight").Invalid(w, "not in valid range [0, 100]")
	}
}

// Resource is a resource and how much it counts.
type Resource struct {
	Name string `json:"name"`

	// Weight is from 1 to 100. Default: 1.
	Weight int64 `json:"weight,omitempty"`
}

// weighed returns resources with weights: those of processor and memory if there are none.
func weighed(resources []Resource) []Resource {
	if len(resources) == 0 {
		return []Resource{{"cpu", 1}, {"memory", 1}}
	}
	resources = slices.Clone(resources)
	for i := range resources {
		if resources[i].Weight == 0 {
			resources[i].Weight = 1
		}
	}
	return resources
}

// NodeResourcesBalancedAllocationArgs are for the plugin that uses all resources of a node alike.
// Source: SCHED-25.
type NodeResourcesBalancedAllocationArgs struct {
	meta.TypeMeta

	// Resources count all alike. Default: cpu and memory.
	Resources []Resource `json:"resources,omitempty"`
}

func (a *NodeResourcesBalancedAllocationArgs) defaults() { a.Resources = weighed(a.Resources) }

func (a *NodeResourcesBalancedAllocationArgs) check(at status.Field) {
	seen := map[string]bool{}
	for i, r := range a.Resources {
		one := at.Child("resources").Index(i)
		if seen[r.Name] {
			one.Child("name").Duplicate(r.Name)
		}
		seen[r.Name] = true
		if r.Weight != 1 {
			one.Child("weight").Invalid(r.Weight, "must be 1")
		}
	}
}

// The ways to score a node by its resources.
const (
	LeastAllocated           = "LeastAllocated"
	MostAllocated            = "MostAllocated"
	RequestedToCapacityRatio = "RequestedToCapacityRatio"
)

// NodeResourcesFitArgs are for the plugin that looks whether a node has what a pod asks for.
// Source: SCHED-26, SCHED-27.
type NodeResourcesFitArgs struct {
	meta.TypeMeta

	// IgnoredResources and IgnoredResourceGroups are not looked at: resources by name, and all whose names
	// begin with a group and a slash.
	IgnoredResources      []string `json:"ignoredResources,omitempty"`
	IgnoredResourceGroups []string `json:"ignoredResourceGroups,omitempty"`

	// ScoringStrategy says which nodes are best. Default: those of which least is allocated.
	ScoringStrategy *ScoringStrategy `json:"scoringStrategy,omitempty"`
}

// ScoringStrategy says how a node is scored by its resources.
type ScoringStrategy struct {
	// Type is LeastAllocated, MostAllocated or RequestedToCapacityRatio.
	Type string `json:"type,omitempty"`

	// Resources say what counts how much. Default: cpu and memory alike.
	Resources []Resource `json:"resources,omitempty"`

	// RequestedToCapacityRatio goes with the type of that name.
	RequestedToCapacityRatio *CapacityRatio `json:"requestedToCapacityRatio,omitempty"`
}

// CapacityRatio scores a node by how much of it is asked for.
type CapacityRatio struct {
	Shape []ShapePoint `json:"shape,omitempty"`
}

// ShapePoint is a point of a function from utilization, in percent, to score.
type ShapePoint struct {
	Utilization int32 `json:"utilization"` // from 0 to 100, each greater than the one before
	Score       int32 `json:"score"`       // from 0 to 10
}

func (a *NodeResourcesFitArgs) defaults() {
	documents.Default(&a.ScoringStrategy, ScoringStrategy{Type: LeastAllocated})
	a.ScoringStrategy.Resources = weighed(a.ScoringStrategy.Resources)
}

func (a *NodeResourcesFitArgs) check(at status.Field) {
	for i, name := range a.IgnoredResources {
		checkLabelKey(at.Child("ignoredResources").Index(i), name)
	}
	for i, name := range a.IgnoredResourceGroups {
		one := at.Child("ignoredResourceGroups").Index(i)
		if strings.Contains(name, "/") {
			one.Invalid(name, "resource group name can't contain '/'")
		}
		checkLabelKey(one, name)
	}
	if a.ScoringStrategy == nil {
		at.Child("scoringStrategy").Required("ScoringStrategy field is required")
		return
	}
	a.ScoringStrategy.check(at.Child("scoringStrategy"))
}

func (s ScoringStrategy) check(at status.Field) {
	types := []string{LeastAllocated, MostAllocated, RequestedToCapacityRatio}
	if !slices.Contains(types, s.Type) {
		at.Child("type").NotSupported(s.Type, types...)
	}
	for i, r := range s.Resources {
		if r.Weight <= 0 || r.Weight > 100 {
			at.Child("resources").Index(i).Child("weight").
				Invalid(r.Weight, fmt.Sprintf("resource weight of %s not in valid range (0, 100]", r.Name))
		}
	}
	ratio := at.Child("requestedToCapacityRatio")
	switch by := s.Type == RequestedToCapacityRatio; {
	case by && s.RequestedToCapacityRatio == nil:
		ratio.Required("must be specified when type is RequestedToCapacityRatio")
	case by:
		checkShape(ratio.Child("shape"), s.RequestedToCapacityRatio.Shape)
	case s.RequestedToCapacityRatio != nil:
		ratio.Forbidden("must be nil when type is not RequestedToCapacityRatio")
	}
}

func checkLabelKey(at status.Field, key string) {
	if problem := meta.CheckLabelKey(key); problem != "" {
		at.Invalid(key, problem)
	}
}

func checkShape(at status.Field, shape []ShapePoint) {
	if len(shape) == 0 {
		at.Required("at least one point must be specified")
	}
	for i := 1; i < len(shape); i++ {
		if shape[i-1].Utilization >= shape[i].Utilization {
			at.Index(i).Child("utilization").Invalid(shape[i].Utilization, "values must be sorted in increasing order")
			break
		}
	}
	for i, p := range shape {
		if p.Utilization < 0 || p.Utilization > 100 {
			at.Index(i).Child("utilization").Invalid(p.Utilization, "not in valid range [0, 100]")
		}
		if p.Score < 0 || p.Score > 10 {
			at.Index(i).Child("score").Invalid(p.Score, "not in valid range [0, 10]")
		}
	}
}

// VolumeBindingArgs are for the plugin that binds volumes before a pod. Source: SCHED-29, SCHED-30.
type VolumeBindingArgs struct {
	meta.TypeMeta

	// BindTimeoutSeconds is how long it waits for volumes; 0 waits for none. Default: 600.
	BindTimeoutSeconds *int64 `json:"bindTimeoutSeconds,omitempty"`

	// Shape scores a node by how much of its storage is used. Kubernetes accepts it behind the gate
	// StorageCapacityScoring alone.
	Shape []ShapePoint `json:"shape,omitempty"`
}

func (a *VolumeBindingArgs) defaults() { documents.Default(&a.BindTimeoutSeconds, 600) }

func (a *VolumeBindingArgs) check(at status.Field) {
	if n := of(a.BindTimeoutSeconds); n < 0 {
		at.Child("bindTimeoutSeconds").Invalid(n, "invalid BindTimeoutSeconds, should not be a negative value")
	}
	if a.Shape != nil {
		checkShape(at.Child("shape"), a.Shape)
	}
}

// DynamicResourcesArgs are for the plugin that allocates devices.
type DynamicResourcesArgs struct {
	meta.TypeMeta

	// FilterTimeout is how long it looks at one node for one pod; 0 sets no limit. Default: 10 s.
	FilterTimeout *meta.Duration `json:"filterTimeout"`

	// BindingTimeout is how long it waits until the devices of a pod are ready. Default: 10 min.
	BindingTimeout *meta.Duration `json:"bindingTimeout,omitempty"`
}

func (a *DynamicResourcesArgs) defaults() {
	documents.Default(&a.FilterTimeout, meta.NewDuration(10*time.Second))
	documents.Default(&a.BindingTimeout, meta.NewDuration(10*time.Minute))
}

func (a *DynamicResourcesArgs) check(at status.Field) {
	if d := of(a.FilterTimeout); d.Duration < 0 {
		at.Child("filterTimeout").Invalid(d, "must be zero or positive")
	}
	if a.BindingTimeout != nil && a.BindingTimeout.Duration < time.Second {
		at.Child("bindingTimeout").Invalid(*a.BindingTimeout, "must be at least 1 second")
	}
}
