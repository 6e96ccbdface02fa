package kinds

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// round is the outcome of one attempt to empty a namespace.
type round struct {
	mu       sync.Mutex                 // guards the fields below while objects are deleted in parallel
	left     map[meta.GroupResource]int // objects that remain
	held     map[string]int             // objects held by each finalizer
	unread   map[meta.GroupResource]error
	failed   map[meta.GroupResource]error // the first error of each resource
	awaiting meta.GroupVersionResource    // a resource that has remaining objects
	afar     bool                         // other servers have remaining objects, and nobody tells when those go
}

func newRound() *round {
	return &round{
		left: map[meta.GroupResource]int{}, held: map[string]int{},
		unread: map[meta.GroupResource]error{}, failed: map[meta.GroupResource]error{},
	}
}

// remains records an object that remains, with its finalizers and the error of its deletion, if
// any. It is safe for concurrent use.
func (r *round) remains(resource meta.GroupVersionResource, finalizers []string, failure error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left[resource.GroupResource()]++
	r.awaiting = resource
	for _, f := range finalizers {
		r.held[f]++
	}
	if failure != nil && r.failed[resource.GroupResource()] == nil {
		r.failed[resource.GroupResource()] = failure
	}
}

// afarRemain records the objects of a resource that remain at another server, or the failure to delete
// them. It is safe for concurrent use.
func (r *round) afarRemain(of meta.GroupVersionResource, left int, failure error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if left > 0 {
		r.left[of.GroupResource()] = max(left, r.left[of.GroupResource()]) // versions show the same objects
		r.afar = true
	}
	if failure != nil {
		r.failed[of.GroupResource()] = failure
	}
}

func (r *round) broken() bool { return len(r.unread) > 0 || len(r.failed) > 0 }

func (r *round) clean() bool { return len(r.left) == 0 && !r.broken() }

// counts lists the counters in a stable order. The text is bounded because it is stored.
func counts[K comparable](of map[K]int, format string) string {
	var parts []string
	for name, n := range of {
		parts = append(parts, fmt.Sprintf(format, name, n))
	}
	return joined(parts)
}

func failures(of map[meta.GroupResource]error) string {
	var parts []string
	for resource, err := range of {
		parts = append(parts, fmt.Sprintf("%s: %s", resource, status.From(err).Error()))
	}
	return joined(parts)
}

// maxReported limits how many kinds or finalizers a condition names.
const maxReported = 50

func joined(parts []string) string {
	slices.Sort(parts)
	if more := len(parts) - maxReported; more > 0 {
		parts = append(parts[:maxReported], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, ", ")
}

// conditions returns the conditions of a terminating namespace after a round (NS-09). A condition
// whose status is unchanged keeps its transition time. Conditions of other types are kept.
func (r *round) conditions(before []NamespaceCondition, now meta.Time) []NamespaceCondition {
	out := slices.Clone(before)
	for _, c := range []NamespaceCondition{
		condition("NamespaceDeletionDiscoveryFailure", len(r.unread) > 0,
			"DiscoveryFailed", fmt.Sprintf("Discovery failed for some groups, %d failing: %s", len(r.unread), failures(r.unread)),
			"ResourcesDiscovered", "All resources successfully discovered"),
		condition("NamespaceDeletionGroupVersionParsingFailure", false, // a version that does not parse cannot be installed
			"", "", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
		condition("NamespaceDeletionContentFailure", len(r.failed) > 0,
			"ContentDeletionFailed", fmt.Sprintf("Failed to delete all resource types, %d remaining: %s",
				len(r.failed), failures(r.failed)),
			"ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
		condition("NamespaceContentRemaining", len(r.left) > 0,
			"SomeResourcesRemain", "Some resources are remaining: "+counts(dotted(r.left), "%s has %d resource instances"),
			"ContentRemoved", "All content successfully removed"),
		condition("NamespaceFinalizersRemaining", len(r.held) > 0,
			"SomeFinalizersRemain",
			"Some content in the namespace has finalizers remaining: "+counts(r.held, "%s in %d resource instances"),
			"ContentHasNoFinalizers", "All content-preserving finalizers finished"),
	} {
		c.LastTransitionTime = now
		i := slices.IndexFunc(out, func(b NamespaceCondition) bool { return b.Type == c.Type })
		switch {
		case i < 0:
			out = append(out, c)
		case out[i].Status == c.Status:
			c.LastTransitionTime = out[i].LastTransitionTime
			out[i] = c
		default:
			out[i] = c
		}
	}
	return out
}

// dotted names resources as resource.group. The core group leaves a trailing dot, as in Kubernetes.
func dotted(of map[meta.GroupResource]int) map[string]int {
	out := make(map[string]int, len(of))
	for resource, n := range of {
		out[resource.Resource+"."+resource.Group] = n
	}
	return out
}

func condition(kind string, is bool, reason, message, reasonNot, messageNot string) NamespaceCondition {
	if is {
		return NamespaceCondition{Type: kind, Status: "True", Reason: reason, Message: message}
	}
	return NamespaceCondition{Type: kind, Status: "False", Reason: reasonNot, Message: messageNot}
}

// sameConditions compares conditions without their transition times.
func sameConditions(a, b []NamespaceCondition) bool {
	return slices.EqualFunc(a, b, func(a, b NamespaceCondition) bool {
		a.LastTransitionTime, b.LastTransitionTime = meta.Time{}, meta.Time{}
		return a == b
	})
}
