package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/watch"
)

// LimitRangerName is the name of the plugin that [LimitRangerPlugin] returns.
const LimitRangerName = "LimitRanger"

// limitNote is the annotation that says what a limit range has filled in.
const limitNote = "kubernetes.io/limit-ranger"

// LimitRangerPlugin returns the plugin that holds pods and claims to the LimitRanges of their
// namespace. Containers of new pods get the requests and limits that they lack. Pods and claims beyond the
// bounds are rejected, when they are created and when they are resized.
func LimitRangerPlugin() admission.Plugin {
	return admission.Plugin{
		Name: LimitRangerName,
		Rules: []admission.Rule{
			{Operations: []admission.Operation{admission.Create}, Groups: []string{""}, Resources: []string{"pods", "persistentvolumeclaims"}},
			{Operations: []admission.Operation{admission.Update}, Groups: []string{""}, Resources: []string{"pods/resize", "persistentvolumeclaims"}},
		},
		Bind: func(b watch.Binding) (admission.Mutator, admission.Validator, error) {
			l := &limiter{}
			return l, l, b.Observe(meta.GroupResource{Resource: "limitranges"}, watch.EveryObject(&l.ranges))
		},
	}
}

type limiter struct {
	ranges namespaceIndex[corev1.LimitRange]
}

// rangesFor returns what a write is held to. An object that is being deleted is let go.
func (l *limiter) rangesFor(r *admission.Request) []indexed[corev1.LimitRange] {
	all := l.ranges.of(r.Namespace)
	if len(all) == 0 || at(r.OldObject, "metadata", "deletionTimestamp") != nil {
		return nil
	}
	return all
}

// Mutate gives containers the requests and limits that they lack.
func (l *limiter) Mutate(ctx context.Context, r *admission.Request) (map[string]any, error) {
	all := l.rangesFor(r)
	if r.Resource.Resource != "pods" || !slices.ContainsFunc(all, givesDefaults) {
		return r.Object, nil
	}
	return admission.TypedMutator(func(_ context.Context, _ *admission.Request, p *corev1.Pod) error {
		for _, one := range all {
			fillLimits(p, one.object)
		}
		return nil
	}).Mutate(ctx, r)
}

// givesDefaults reports whether a limit range has something to give to containers.
func givesDefaults(of indexed[corev1.LimitRange]) bool {
	return slices.ContainsFunc(of.object.Spec.Limits, func(item corev1.LimitRangeItem) bool {
		return item.Type == corev1.LimitTypeContainer && (len(item.Default) > 0 || len(item.DefaultRequest) > 0)
	})
}

// fillLimits applies the defaults of one limit range, and notes what it did.
func fillLimits(p *corev1.Pod, of *corev1.LimitRange) {
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range of.Spec.Limits {
		if item := &of.Spec.Limits[i]; item.Type == corev1.LimitTypeContainer {
			copyAmounts(requests, item.DefaultRequest)
			copyAmounts(limits, item.Default)
		}
	}
	var notes []string
	note := func(names []string, what, kind, name string) {
		if len(names) > 0 {
			notes = append(notes, fmt.Sprintf("%s %s for %s %s", strings.Join(names, ", "), what, kind, name))
		}
	}
	for _, set := range []struct {
		kind string
		all  []corev1.Container
	}{{"container", p.Spec.Containers}, {"init container", p.Spec.InitContainers}} {
		for i := range set.all {
			c := &set.all[i]
			asked := fillAmounts(&c.Resources.Requests, requests)
			limited := fillAmounts(&c.Resources.Limits, limits)
			note(asked, "request", set.kind, c.Name)
			note(limited, "limit", set.kind, c.Name)
		}
	}
	if len(notes) == 0 {
		return
	}
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[limitNote] = "LimitRanger plugin set: " + strings.Join(notes, "; ")
}

func copyAmounts(to, from corev1.ResourceList) {
	for name, amount := range from {
		to[name] = amount.DeepCopy()
	}
}

// fillAmounts adds the amounts that are missing, and returns their names.
func fillAmounts(to *corev1.ResourceList, from corev1.ResourceList) (added []string) {
	for _, name := range amountNames(from) {
		if _, has := (*to)[name]; has {
			continue
		}
		if *to == nil {
			*to = corev1.ResourceList{}
		}
		(*to)[name] = from[name].DeepCopy()
		added = append(added, string(name))
	}
	return added
}

// amountNames returns the resources of a list in order.
func amountNames(l corev1.ResourceList) []corev1.ResourceName {
	return slices.Sorted(maps.Keys(l))
}

// Validate rejects what is beyond the bounds.
func (l *limiter) Validate(_ context.Context, r *admission.Request) error {
	all := l.rangesFor(r)
	if len(all) == 0 {
		return nil
	}
	if r.Resource.Resource == "pods" {
		p, err := decode[corev1.Pod](r.Object)
		if err != nil {
			return err
		}
		return judgeAll(r, all, func(item *corev1.LimitRangeItem) []string { return podBeyond(p, item) })
	}
	c, err := decode[corev1.PersistentVolumeClaim](r.Object)
	if err != nil {
		return err
	}
	return judgeAll(r, all, func(item *corev1.LimitRangeItem) []string {
		if item.Type != corev1.LimitTypePersistentVolumeClaim {
			return nil
		}
		asked := bounded{"PersistentVolumeClaim", c.Spec.Resources.Requests, nil}
		return append(each(item.Min, asked.below), each(item.Max, asked.requestAbove)...)
	})
}

// judgeAll rejects a write for the first limit range that it is beyond, with everything that is.
func judgeAll(r *admission.Request, all []indexed[corev1.LimitRange], judge func(*corev1.LimitRangeItem) []string) error {
	for _, one := range all {
		var wrong []string
		told := map[string]bool{}
		for i := range one.object.Spec.Limits {
			for _, why := range judge(&one.object.Spec.Limits[i]) {
				if !told[why] {
					told[why], wrong = true, append(wrong, why)
				}
			}
		}
		switch len(wrong) {
		case 0:
		case 1:
			return refused(r, wrong[0])
		default:
			return refused(r, "["+strings.Join(wrong, ", ")+"]")
		}
	}
	return nil
}

// podBeyond says what of a pod is beyond the bounds for containers or for whole pods.
func podBeyond(p *corev1.Pod, item *corev1.LimitRangeItem) (wrong []string) {
	judge := func(b bounded) {
		wrong = append(wrong, each(item.Min, b.below)...)
		wrong = append(wrong, each(item.Max, b.above)...)
		wrong = append(wrong, each(item.MaxLimitRequestRatio, b.apart)...)
	}
	switch item.Type {
	case corev1.LimitTypeContainer:
		for _, c := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
			judge(bounded{"Container", c.Resources.Requests, c.Resources.Limits})
		}
	case corev1.LimitTypePod:
		judge(bounded{"Pod", podTotal(p, false, false), podTotal(p, true, false)})
	case corev1.LimitTypePersistentVolumeClaim:
	}
	return wrong
}

// each judges every bound of a list.
func each(bounds corev1.ResourceList, judge func(corev1.ResourceName, resource.Quantity) string) (wrong []string) {
	for _, name := range amountNames(bounds) {
		if why := judge(name, bounds[name]); why != "" {
			wrong = append(wrong, why)
		}
	}
	return wrong
}

// bounded is what a container, a pod or a claim asks for.
type bounded struct {
	kind             string
	requests, limits corev1.ResourceList
}

func (b bounded) below(name corev1.ResourceName, least resource.Quantity) string {
	request, asked := b.requests[name]
	limit, limited := b.limits[name]
	what := fmt.Sprintf("minimum %s usage per %s is %s", name, b.kind, least.String())
	switch {
	case !asked:
		return what + ".  No request is specified"
	case request.Cmp(least) < 0:
		return fmt.Sprintf("%s, but request is %s", what, request.String())
	case limited && limit.Cmp(least) < 0:
		return fmt.Sprintf("%s, but limit is %s", what, limit.String())
	}
	return ""
}

func (b bounded) above(name corev1.ResourceName, most resource.Quantity) string {
	request, asked := b.requests[name]
	limit, limited := b.limits[name]
	what := fmt.Sprintf("maximum %s usage per %s is %s", name, b.kind, most.String())
	switch {
	case !limited:
		return what + ".  No limit is specified"
	case limit.Cmp(most) > 0:
		return fmt.Sprintf("%s, but limit is %s", what, limit.String())
	case asked && request.Cmp(most) > 0:
		return fmt.Sprintf("%s, but request is %s", what, request.String())
	}
	return ""
}

// requestAbove is above for what has no limits.
func (b bounded) requestAbove(name corev1.ResourceName, most resource.Quantity) string {
	request, asked := b.requests[name]
	what := fmt.Sprintf("maximum %s usage per %s is %s", name, b.kind, most.String())
	switch {
	case !asked:
		return what + ".  No request is specified"
	case request.Cmp(most) > 0:
		return fmt.Sprintf("%s, but request is %s", what, request.String())
	}
	return ""
}

// apart compares the ratio of limit and request with the highest one.
func (b bounded) apart(name corev1.ResourceName, most resource.Quantity) string {
	request, limit := b.requests[name], b.limits[name]
	what := fmt.Sprintf("%s max limit to request ratio per %s is %s", name, b.kind, most.String())
	switch {
	case request.IsZero():
		return what + ", but no request is specified or request is 0"
	case limit.IsZero():
		return what + ", but no limit is specified or limit is 0"
	}
	if ratio := limit.AsApproximateFloat64() / request.AsApproximateFloat64(); ratio > most.AsApproximateFloat64() {
		return fmt.Sprintf("%s, but provided ratio is %f", what, ratio)
	}
	return ""
}
