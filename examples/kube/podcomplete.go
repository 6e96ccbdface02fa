package kube

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// completePod gives a new pod its initial status, and records when a pod gets its node.
func (c *cluster) completePod(ctx context.Context, p, old *corev1.Pod) error {
	if t := p.Spec.TerminationGracePeriodSeconds; t != nil && *t < 0 {
		p.Spec.TerminationGracePeriodSeconds = new(int64(1)) // a pod always gets time to end; templates keep what they say
	}
	if old != nil {
		if err := aloneForbidden(old, registry.SubresourceFrom(ctx)); err != nil {
			return err
		}
		set(&p.Status.QOSClass, old.Status.QOSClass) // which a status need not repeat
		if old.Spec.NodeName == "" && p.Spec.NodeName != "" {
			c.scheduled(p)
			if !c.off(gateForgetsNomination) {
				p.Status.NominatedNodeName = "" // the pod needs no place to be kept for it any more
			}
		}
		return nil
	}
	mergeLabelKeys(p)
	moveAppArmor(ctx, p)
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

// moveAppArmor gives containers of a new pod the profiles of AppArmor that annotations name, unless fields do.
func moveAppArmor(ctx context.Context, p *corev1.Pod) {
	if p.Spec.OS != nil && p.Spec.OS.Name == corev1.Windows {
		return
	}
	var pod *corev1.AppArmorProfile
	if s := p.Spec.SecurityContext; s != nil {
		pod = s.AppArmorProfile
	}
	for _, all := range containersOf(&p.Spec) {
		for i := range all {
			c, key := &all[i], appArmorPrefix+all[i].Name
			annotation, said := p.Annotations[key]
			if !said || c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
				continue
			}
			profile := profileOf(annotation)
			if profile != nil && reflect.DeepEqual(profile, pod) {
				continue // the field of the pod says so already
			}
			if profile != nil {
				point(&c.SecurityContext, corev1.SecurityContext{})
				c.SecurityContext.AppArmorProfile = profile
			}
			registry.Warn(ctx, "metadata.annotations["+key+"]: deprecated since v1.30; use the \"appArmorProfile\" field instead")
		}
	}
}

// profileOf reads the annotation for a profile of AppArmor. It returns nil if there is no such profile.
func profileOf(annotation string) *corev1.AppArmorProfile {
	file, local := strings.CutPrefix(annotation, localhostPrefix)
	var out *corev1.AppArmorProfile
	switch {
	case annotation == unconfined:
		out = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	case annotation == runtimeDefault:
		out = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	case local:
		out = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &file}
	}
	alone := &status.Fields{}
	if checkAppArmor(out, alone.At()); alone.Len() > 0 {
		return nil
	}
	return out
}
