package kube

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// checkNode checks a node. A write of the status is not refused for the ranges of addresses of its pods.
func (c *cluster) checkNode(ctx context.Context, n *corev1.Node, f *status.Fields) {
	checkAmountsOfNode(n.Status.Capacity, f.At("status", "capacity"))
	checkAmountsOfNode(n.Status.Allocatable, f.At("status", "allocatable"))
	checkDeclared(n.Status.DeclaredFeatures, f.At("status", "declaredFeatures"))
	checkTaints(n.Spec.Taints, f)
	if registry.SubresourceFrom(ctx) == "status" {
		return
	}
	c.checkPodRanges(n.Spec.PodCIDRs, f)
	if swap := n.Status.NodeInfo.Swap; swap != nil && swap.Capacity != nil && *swap.Capacity <= 0 {
		f.At("metadata", "nodeSwapStatus", "capacity").Invalid(*swap.Capacity, "must be greater than zero") // kube-apiserver's path
	}
}

// checkAmountsOfNode checks what a node has.
func checkAmountsOfNode(list corev1.ResourceList, at status.Field) {
	for _, name := range amountNames(list) {
		isCounted(at.Child(string(name)), name, list[name])
	}
}

// declaredFeatures are the names of features, and of parts of them.
var declaredFeatures = regexp.MustCompile(`^[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*$`)

// checkDeclared checks which features a node says that it has: names in order, each once.
func checkDeclared(all []string, at status.Field) {
	for i, name := range all {
		one := at.Index(i)
		if len(name) > meta.MaxDNSSubdomain {
			one.Invalid(name, fmt.Sprintf("invalid feature name %q: must be no more than %d characters", name, meta.MaxDNSSubdomain))
		} else if !declaredFeatures.MatchString(name) {
			one.Invalid(name, fmt.Sprintf("invalid feature name %q: must start with an UpperCamelCase segment, with subsequent segments "+
				"separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes", name))
		}
		switch {
		case i == 0 || name > all[i-1]:
		case name == all[i-1]:
			one.Duplicate(name)
		default:
			one.Invalid(name, "list must be sorted alphabetically")
		}
	}
}

// checkTaints checks what keeps pods from a node: of each key and effect there is one taint.
func checkTaints(all []corev1.Taint, f *status.Fields) {
	type pair struct {
		key    string
		effect corev1.TaintEffect
	}
	pairs := map[pair]bool{}
	for i, t := range all {
		one := f.At("metadata", "taints").Index(i) // as kube-apiserver names it
		checkTaintLabel(t.Key, t.Value, one)
		if t.Effect == "" {
			one.Child("effect").Required("")
		} else {
			oneOf(one.Child("effect"), t.Effect, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)
		}
		if pairs[pair{t.Key, t.Effect}] {
			f.Add(status.FieldError{
				Type: meta.CauseFieldValueDuplicate, Field: one.Path().String(), Detail: "taints must be unique by key and effect pair",
				Value: struct {
					Key, Value string
					Effect     corev1.TaintEffect
					TimeAdded  *metav1.Time
				}{t.Key, t.Value, t.Effect, t.TimeAdded},
			})
		}
		pairs[pair{t.Key, t.Effect}] = true
	}
}

// checkPodRanges checks the ranges of addresses of the pods on a node, of which there is one of each family.
func (c *cluster) checkPodRanges(cidrs []string, f *status.Fields) {
	at := f.At("spec", "podCIDRs")
	for i, cidr := range cidrs {
		c.isCIDR(at.Index(i), cidr)
	}
	if len(cidrs) < 2 {
		return
	}
	both, err := netutils.IsDualStackCIDRStrings(cidrs)
	if err != nil {
		addErrors(f, field.ErrorList{field.InternalError(field.NewPath("spec", "podCIDRs"),
			fmt.Errorf("invalid PodCIDRs. failed to check with dual stack with error:%w", err))})
	}
	if !both || len(cidrs) > 2 {
		at.Invalid(cidrs, "may specify no more than one CIDR for each IP family")
	}
}

// checkNodeUpdate checks that a node keeps what identifies its machine once it is known.
func checkNodeUpdate(n, old *corev1.Node, f *status.Fields) {
	seen := map[corev1.NodeAddress]bool{}
	for i, a := range n.Status.Addresses {
		if seen[a] {
			f.At("status", "addresses").Index(i).Duplicate(struct{ Type, Address string }{string(a.Type), a.Address})
		}
		seen[a] = true
	}
	if before := old.Spec.PodCIDRs; len(before) > 0 && !slices.Equal(before, n.Spec.PodCIDRs) {
		f.At("spec", "podCIDRs").Forbidden(`node updates may not change podCIDR except from "" to valid`)
	}
	if before := old.Spec.ProviderID; before != "" && before != n.Spec.ProviderID {
		f.At("spec", "providerID").Forbidden(`node updates may not change providerID except from "" to valid`)
	}
	if n.Spec.DoNotUseExternalID != old.Spec.DoNotUseExternalID {
		f.At("spec", "externalID").Forbidden("may not be updated")
	}
}
