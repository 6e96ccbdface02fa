package kube

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

var (
	podResource           = meta.GroupVersionResource{Version: "v1", Resource: "pods"}
	priorityClassResource = meta.GroupVersionResource{Group: "scheduling.k8s.io", Version: "v1", Resource: "priorityclasses"}
)

// completePod gives a new pod what the scheduler needs: a priority, tolerations for nodes in
// trouble, and the initial phase. A replaced pod keeps its priority, so that a client may send again
// what it created the pod from.
func (c *cluster) completePod(ctx context.Context, p, old *corev1.Pod) error {
	if !c.without("DefaultTolerationSeconds") && registry.SubresourceFrom(ctx) == "" {
		c.tolerate(&p.Spec)
	}
	if old != nil {
		if old.Spec.NodeName == "" && p.Spec.NodeName != "" {
			c.scheduled(p)
		}
		if !c.without("Priority") && registry.SubresourceFrom(ctx) == "" {
			p.Spec.Priority = cmp.Or(p.Spec.Priority, old.Spec.Priority)
			p.Spec.PreemptionPolicy = cmp.Or(p.Spec.PreemptionPolicy, old.Spec.PreemptionPolicy)
		}
		return nil
	}
	if !c.without("Priority") {
		if err := prioritize(ctx, p); err != nil {
			return err
		}
	}
	p.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: qualityOf(p)}
	if len(p.Spec.SchedulingGates) > 0 {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated,
			Message: "Scheduling is blocked due to non-empty scheduling gates", LastTransitionTime: metav1.NewTime(c.now()),
		}}
	}
	return nil
}

// scheduled records that a pod has its node.
func (c *cluster) scheduled(p *corev1.Pod) {
	setPodCondition(&p.Status, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(c.now())})
}

// setPodCondition adds a condition, or puts it in the place of the earlier one of its type. The time
// of the last transition stays if the status does.
func setPodCondition(s *corev1.PodStatus, one corev1.PodCondition) {
	i := slices.IndexFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == one.Type })
	if i < 0 {
		s.Conditions = append(s.Conditions, one)
		return
	}
	if s.Conditions[i].Status == one.Status {
		one.LastTransitionTime = s.Conditions[i].LastTransitionTime
	}
	s.Conditions[i] = one
}

// now is the time of the server.
func (c *cluster) now() time.Time {
	if e := c.engine.Load(); e != nil {
		return e.Now()
	}
	return time.Now()
}

// staysFor is how long a pod stays on a node that is not ready or unreachable, unless the pod has
// its own value.
const staysFor = int64(300)

// tolerate lets a pod stay on a node in trouble for a while.
func (c *cluster) tolerate(s *corev1.PodSpec) {
	for i, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		said := slices.ContainsFunc(s.Tolerations, func(t corev1.Toleration) bool {
			return (t.Key == key || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "")
		})
		if !said {
			seconds := staysFor
			if given := [...]*int64{c.NotReadySeconds, c.UnreachableSeconds}[i]; given != nil {
				seconds = *given
			}
			s.Tolerations = append(s.Tolerations,
				corev1.Toleration{
					Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
					TolerationSeconds: &seconds,
				})
		}
	}
}

// priorityClass returns the class that a pod names, or the default class.
func priorityClass(ctx context.Context, p *corev1.Pod) (*schedulingv1.PriorityClass, error) {
	classes := registry.For[schedulingv1.PriorityClass](ctx)
	if name := p.Spec.PriorityClassName; name != "" {
		class, err := classes.Get(ctx, "", name)
		if status.IsNotFound(err) {
			return nil, status.Forbidden(podResource.GroupResource(), p.Name, "no PriorityClass with name "+name+" was found")
		}
		return class, err
	}
	class := &schedulingv1.PriorityClass{}
	for one, err := range classes.List(ctx, "", registry.ListRequest{}) {
		if err != nil {
			return nil, err
		}
		if one.GlobalDefault && (class.Name == "" || one.Value < class.Value) {
			class = one
		}
	}
	return class, nil
}

// prioritize gives a pod the priority of its class.
func prioritize(ctx context.Context, p *corev1.Pod) error {
	class, err := priorityClass(ctx, p)
	if err != nil {
		return err
	}
	policy := corev1.PreemptLowerPriority
	if class.PreemptionPolicy != nil {
		policy = *class.PreemptionPolicy
	}
	if p.Spec.Priority != nil && *p.Spec.Priority != class.Value {
		return status.Forbidden(podResource.GroupResource(), p.Name,
			"the integer value of priority must not be provided in pod spec; priority admission controller computed a value from the given PriorityClass name")
	}
	if p.Spec.PreemptionPolicy != nil && *p.Spec.PreemptionPolicy != policy {
		return status.Forbidden(podResource.GroupResource(), p.Name,
			"the string value of PreemptionPolicy must not be provided in pod spec; priority admission controller computed a value from the given PriorityClass name")
	}
	p.Spec.PriorityClassName, p.Spec.Priority, p.Spec.PreemptionPolicy = class.Name, &class.Value, &policy
	return nil
}
