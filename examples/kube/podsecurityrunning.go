package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/pod-security-admission/api"
	standards "k8s.io/pod-security-admission/policy"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

// A change of a namespace is answered soon: these bound how many of its pods are checked, and for how
// long. They are those of Kubernetes.
const (
	maxPodsChecked = 3000
	maxPodsTime    = time.Second
)

// violations are the pods that violate a policy, by what is wrong with them.
type violations map[string]*violators

type violators struct {
	first string // by name
	count int
}

func (v violations) add(reason, pod string) {
	if v[reason] == nil {
		v[reason] = &violators{first: pod}
	}
	v[reason].first = min(v[reason].first, pod)
	v[reason].count++
}

// warnings returns a line for each reason, in order.
func (v violations) warnings() (out []string) {
	for _, reason := range slices.Sorted(maps.Keys(v)) {
		others := ""
		switch n := v[reason].count - 1; n {
		case 0:
		case 1:
			others = " (and 1 other pod)"
		default:
			others = fmt.Sprintf(" (and %d other pods)", n)
		}
		out = append(out, v[reason].first+others+": "+reason)
	}
	slices.Sort(out)
	return out
}

// warnOfPods warns of the pods of a namespace that its new policy would refuse. They go on running.
func (p *podSecurity) warnOfPods(ctx context.Context, r *admission.Request, enforce api.LevelVersion) {
	ctx, cancel := context.WithTimeout(ctx, maxPodsTime)
	defer cancel()
	all, err := podsByController(ctx, r)
	if err != nil {
		registry.Warn(ctx, "failed to list pods while checking new PodSecurity enforce level")
		return
	}
	found, checked := violations{}, 0
	for _, pod := range all[:min(len(all), maxPodsChecked)] {
		if ctx.Err() != nil {
			break
		}
		checked++
		if result := standards.AggregateCheckResults(p.evaluator.EvaluatePod(enforce, &pod.ObjectMeta, &pod.Spec)); !result.Allowed {
			found.add(result.ForbiddenReason(), pod.Name)
		}
	}
	if checked < len(all) {
		registry.Warn(ctx, fmt.Sprintf("new PodSecurity enforce level only checked against the first %d of %d existing pods", checked, len(all)))
	}
	if len(found) > 0 {
		registry.Warn(ctx, fmt.Sprintf("existing pods in namespace %q violate the new PodSecurity enforce level %q", r.Name, enforce.String()))
	}
	for _, line := range found.warnings() {
		registry.Warn(ctx, line)
	}
}

// podsByController returns the pods of a namespace: first one of each controller, for its others are
// much the same.
func podsByController(ctx context.Context, r *admission.Request) ([]*corev1.Pod, error) {
	var first, rest []*corev1.Pod
	seen := map[types.UID]bool{}
	for tree, err := range r.Server.List(ctx, meta.GroupVersionResource{Version: "v1", Resource: "pods"}, r.Name) {
		if err != nil {
			return nil, err
		}
		pod := new(corev1.Pod)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tree, pod); err != nil {
			return nil, err
		}
		c := metav1.GetControllerOfNoCopy(pod)
		switch {
		case c == nil:
			first = append(first, pod)
		case seen[c.UID]:
			rest = append(rest, pod)
		default:
			seen[c.UID] = true
			first = append(first, pod)
		}
	}
	return append(first, rest...), nil
}
