package kube

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// completePod gives a new pod its initial status, and records when a pod gets its node.
func (c *cluster) completePod(_ context.Context, p, old *corev1.Pod) error {
	if old != nil {
		if old.Spec.NodeName == "" && p.Spec.NodeName != "" {
			c.scheduled(p)
		}
		return nil
	}
	mergeLabelKeys(p)
	if period := p.Spec.TerminationGracePeriodSeconds; period != nil && *period < 0 {
		p.Spec.TerminationGracePeriodSeconds = new(int64(1)) // templates keep what they say
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
