package kube

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/kindwright/kindwright/registry"
)

// answered is for kinds whose deletion returns the deleted object.
func answered() registry.Deletion { return registry.Deletion{AnswerObject: true} }

// podGrace returns the grace period of a pod. It is 0 if the pod has no node or has ended.
// Otherwise the request decides, or else the pod.
func podGrace(p *corev1.Pod, asked *int64) int64 {
	if p.Spec.NodeName == "" || p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
		return 0
	}
	seconds := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if p.Spec.TerminationGracePeriodSeconds != nil {
		seconds = *p.Spec.TerminationGracePeriodSeconds
	}
	if asked != nil {
		seconds = *asked
	}
	if seconds < 0 {
		return 1
	}
	return seconds
}
