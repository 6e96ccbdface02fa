package kube

import (
	"context"
	"fmt"
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// checkPodUpdate reports changes of immutable fields of a pod. The path decides which fields may
// change.
func (c *cluster) checkPodUpdate(ctx context.Context, p, old *corev1.Pod, f *status.Fields) {
	if ctx.Value(binding{}) != nil {
		return // only its node was set
	}
	switch registry.SubresourceFrom(ctx) {
	case "":
		checkAnnotationUpdate(p, old, f)
		checkPodReplaced(&p.Spec, &old.Spec, f)
	case "resize":
		checkPodResized(p, old, f)
	case "status":
		checkAnnotationUpdate(p, old, f)
		c.checkPodStatus(p, old, f)
	case "ephemeralcontainers":
		checkEphemeralKept(&p.Spec, &old.Spec, f)
	}
}

// checkPodReplaced reports changes of a pod that the main path does not allow. Nearly all of the
// spec is immutable there.
func checkPodReplaced(p, old *corev1.PodSpec, f *status.Fields) {
	before, now := old.DeepCopy(), p.DeepCopy()
	if len(before.Containers) != len(now.Containers) {
		f.At("spec", "containers").Forbidden("pod updates may not add or remove containers")
		return
	}
	if len(before.InitContainers) != len(now.InitContainers) {
		f.At("spec", "initContainers").Forbidden("pod updates may not add or remove containers")
		return
	}
	for i := range now.Containers {
		now.Containers[i].Image = before.Containers[i].Image
	}
	for i := range now.InitContainers {
		now.InitContainers[i].Image = before.InitContainers[i].Image
	}
	checkDeadlineUpdate(now.ActiveDeadlineSeconds, before.ActiveDeadlineSeconds, f.At("spec", "activeDeadlineSeconds"))
	now.ActiveDeadlineSeconds = before.ActiveDeadlineSeconds
	checkTolerationUpdate(now.Tolerations, before.Tolerations, f.At("spec", "tolerations"))
	now.Tolerations = before.Tolerations
	checkGateUpdate(now.SchedulingGates, before.SchedulingGates, f.At("spec", "schedulingGates"))
	now.SchedulingGates = before.SchedulingGates
	if len(before.SchedulingGates) > 0 {
		checkGatedUpdate(now, before, f)
	}
	if g := now.TerminationGracePeriodSeconds; g != nil && *g == 1 && before.TerminationGracePeriodSeconds != nil && *before.TerminationGracePeriodSeconds < 0 {
		now.TerminationGracePeriodSeconds = before.TerminationGracePeriodSeconds
	}
	if !equality.Semantic.DeepEqual(now, before) {
		f.At("spec").Forbidden("pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)")
	}
}

// checkDeadlineUpdate reports a deadline that is removed or later than before.
func checkDeadlineUpdate(now, before *int64, at status.Field) {
	switch {
	case before == nil:
	case now == nil:
		at.Invalid(nil, "must not update from a positive integer to nil value")
	case *now > *before:
		at.Invalid(*now, "must be less than or equal to previous value")
	}
}

// checkTolerationUpdate reports tolerations that are gone, or changed beyond their seconds.
func checkTolerationUpdate(now, before []corev1.Toleration, at status.Field) {
	kept := make(map[corev1.Toleration]bool, len(now))
	for _, t := range now {
		t.TolerationSeconds = nil
		kept[t] = true
	}
	for _, old := range before {
		if old.TolerationSeconds = nil; !kept[old] {
			at.Forbidden("existing toleration can not be modified except its tolerationSeconds")
			return
		}
	}
}

// checkGateUpdate reports gates that are new.
func checkGateUpdate(now, before []corev1.PodSchedulingGate, at status.Field) {
	had := make(map[corev1.PodSchedulingGate]bool, len(before))
	for _, gate := range before {
		had[gate] = true
	}
	for i, gate := range now {
		if !had[gate] {
			at.Index(i).Child("name").Forbidden("only deletion is allowed, but found new scheduling gate '" + gate.Name + "'")
		}
	}
}

// checkGatedUpdate reports changes of where a pod may run that its gates do not allow: while it is
// gated, it may be restricted further. It equates what may change.
func checkGatedUpdate(now, before *corev1.PodSpec, f *status.Fields) {
	for name, value := range before.NodeSelector {
		if kept, has := now.NodeSelector[name]; !has || kept != value {
			f.At("spec", "nodeSelector").Invalid(now.NodeSelector, "only additions to spec.nodeSelector are allowed (no mutations or deletions)")
			break
		}
	}
	now.NodeSelector = before.NodeSelector
	at := f.At("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
	terms, old := nodeTerms(now.Affinity), nodeTerms(before.Affinity)
	if len(old) > 0 && len(old) != len(terms) {
		at.Invalid(terms, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")
	} else {
		for i := range old {
			if !narrowed(&terms[i], &old[i]) {
				at.Index(i).Invalid(terms[i], "only additions are allowed (no mutations or deletions)")
			}
		}
	}
	rest := &corev1.Affinity{}
	if now.Affinity != nil {
		*rest = *now.Affinity
	}
	if rest.NodeAffinity = nil; before.Affinity != nil {
		rest.NodeAffinity = before.Affinity.NodeAffinity
	}
	if now.Affinity = rest; before.Affinity == nil && *rest == (corev1.Affinity{}) {
		now.Affinity = nil
	}
}

func nodeTerms(a *corev1.Affinity) []corev1.NodeSelectorTerm {
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
}

// narrowed reports whether a term has all requirements of an earlier one, in the same places. An empty
// term selects no node, and stays empty.
func narrowed(now, before *corev1.NodeSelectorTerm) bool {
	if len(before.MatchExpressions)+len(before.MatchFields) == 0 {
		return len(now.MatchExpressions)+len(now.MatchFields) == 0
	}
	begins := func(now, before []corev1.NodeSelectorRequirement) bool {
		return len(now) >= len(before) && equality.Semantic.DeepEqual(now[:len(before)], before)
	}
	return begins(now.MatchExpressions, before.MatchExpressions) && begins(now.MatchFields, before.MatchFields)
}

// checkPodResized reports changes that a resize cannot make. Only processors and memory may change,
// and the quality of service must stay the same.
func checkPodResized(p, old *corev1.Pod, f *status.Fields) {
	spec, before, now := f.At("spec"), old.Spec.DeepCopy(), p.Spec.DeepCopy()
	if class := qualityOf(old); class != qualityOf(p) {
		spec.Invalid(string(class), "Pod QOS Class may not change as a result of resizing")
	}
	for _, s := range old.Status.ContainerStatuses {
		if s.State.Running != nil {
			if s.Resources == nil {
				spec.Forbidden("Pod running on node without support for resize")
			}
			break
		}
	}
	if len(old.Status.NodeAllocatableResourceClaimStatuses) > 0 {
		spec.Forbidden("pods with node allocatable resource claims cannot be resized")
	}
	if before.Resources != nil && now.Resources == nil {
		spec.Child("resources").Forbidden("pod-level resources cannot be removed")
		now.Resources = before.Resources
	}
	if !sameContainers(now.Containers, before.Containers, spec.Child("containers")) ||
		!sameContainers(now.InitContainers, before.InitContainers, spec.Child("initContainers")) {
		return
	}
	if states(now.Resources) || states(before.Resources) {
		if before.Resources == nil {
			before.Resources = &corev1.ResourceRequirements{}
		}
		resizeOf(now.Resources, before.Resources, spec.Child("resources"), "pod-level ")
		if !equality.Semantic.DeepEqual(now.Resources, before.Resources) {
			spec.Forbidden("only cpu and memory resources are mutable at pod-level")
		}
	}
	checkContainersResized(now, before, spec, f.Len() > 0)
	if f.Len() == 0 && !equality.Semantic.DeepEqual(now, before) {
		spec.Forbidden(sizesAlone)
	}
}

// states reports whether a pod as a whole asks for something.
func states(r *corev1.ResourceRequirements) bool {
	return r != nil && len(r.Requests)+len(r.Limits) > 0
}

const sizesAlone = "only cpu and memory resources are mutable"

// checkContainersResized reports what else than their sizes changes in containers. The names of devices may be wrong
// already, and are said to be.
func checkContainersResized(now, before *corev1.PodSpec, spec status.Field, wrong bool) {
	for i := range now.Containers {
		resizeOf(&now.Containers[i].Resources, &before.Containers[i].Resources, spec.Child("containers").Index(i).Child("resources"), "")
		if wrong {
			now.Containers[i].Resources.Claims = before.Containers[i].Resources.Claims
		}
		if !equality.Semantic.DeepEqual(now.Containers[i], before.Containers[i]) {
			spec.Forbidden(sizesAlone)
		}
	}
	for i := range now.InitContainers {
		at := spec.Child("initContainers").Index(i)
		resizeOf(&now.InitContainers[i].Resources, &before.InitContainers[i].Resources, at.Child("resources"), "")
		if !equality.Semantic.DeepEqual(now.InitContainers[i], before.InitContainers[i]) {
			at.Forbidden("only cpu and memory resources for init or sidecar containers are mutable")
		}
	}
}

// aloneForbidden is the only thing that is said of pods that cannot have a subresource. It is nil for other pods.
func aloneForbidden(old *corev1.Pod, subresource string) error {
	_, static := old.Annotations[corev1.MirrorPodAnnotationKey]
	var why string
	switch {
	case subresource == "ephemeralcontainers" && static:
		why = "static pods do not support ephemeral containers"
	case subresource == "resize" && static:
		why = "static pods cannot be resized"
	case subresource == "resize" && old.Spec.OS != nil && old.Spec.OS.Name == corev1.Windows:
		why = "windows pods cannot be resized"
	default:
		return nil
	}
	f := &status.Fields{}
	f.At("[]").Forbidden(why) // as kube-apiserver spells the pod itself
	return status.Invalid(meta.GroupKind{Kind: "Pod"}, old.Name, f.Errors())
}

// sameContainers reports containers that a resize renames, reorders, adds or removes.
func sameContainers(now, before []corev1.Container, at status.Field) bool {
	if len(now) != len(before) {
		at.Forbidden("containers may not be added or removed on resize")
		return false
	}
	out := true
	for i := range now {
		if now[i].Name != before[i].Name {
			at.Index(i).Child("name").Forbidden("containers may not be renamed or reordered on resize")
			out = false
		}
	}
	return out
}

// resizeOf reports quantities that are missing now, and equates those that may change.
func resizeOf(now, before *corev1.ResourceRequirements, at status.Field, whose string) {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		now.Limits = sizeKept(now.Limits, before.Limits, name, at.Child("limits"), whose+"resource limits")
		now.Requests = sizeKept(now.Requests, before.Requests, name, at.Child("requests"), whose+"resource requests")
	}
}

func sizeKept(now, before corev1.ResourceList, name corev1.ResourceName, at status.Field, what string) corev1.ResourceList {
	_, has := now[name]
	amount, had := before[name]
	if had && !has {
		at.Forbidden(what + " cannot be removed")
	}
	out := maps.Clone(now)
	switch {
	case had && out == nil:
		out = corev1.ResourceList{name: amount}
	case had:
		out[name] = amount
	default:
		delete(out, name)
	}
	if len(out) == 0 && len(before) == 0 {
		return before
	}
	return out
}

// checkEphemeralKept reports ephemeral containers that are gone or changed.
func checkEphemeralKept(p, old *corev1.PodSpec, f *status.Fields) {
	all, now := f.At("spec", "ephemeralContainers"), map[string]*corev1.EphemeralContainer{}
	for i := range p.EphemeralContainers {
		now[p.EphemeralContainers[i].Name] = &p.EphemeralContainers[i]
	}
	for i := range old.EphemeralContainers {
		before := &old.EphemeralContainers[i]
		if c := now[before.Name]; c == nil {
			all.Forbidden(fmt.Sprintf("existing ephemeral containers %q may not be removed", before.Name))
		} else if !reflect.DeepEqual(c, before) {
			all.Forbidden(fmt.Sprintf("existing ephemeral containers %q may not be changed", before.Name))
		}
	}
}
