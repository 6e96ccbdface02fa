package kube

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mergeLabelKeys adds to the selectors of a new pod what their matchLabelKeys and mismatchLabelKeys mean with the labels of
// the pod, so that the scheduler looks at selectors alone.
func mergeLabelKeys(p *corev1.Pod) {
	for i := range p.Spec.TopologySpreadConstraints {
		one := &p.Spec.TopologySpreadConstraints[i]
		selectKeys(one.LabelSelector, one.MatchLabelKeys, metav1.LabelSelectorOpIn, p.Labels)
	}
	term := func(t *corev1.PodAffinityTerm) {
		selectKeys(t.LabelSelector, t.MatchLabelKeys, metav1.LabelSelectorOpIn, p.Labels)
		selectKeys(t.LabelSelector, t.MismatchLabelKeys, metav1.LabelSelectorOpNotIn, p.Labels)
	}
	terms := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		for i := range preferred {
			term(&preferred[i].PodAffinityTerm)
		}
		for i := range required {
			term(&required[i])
		}
	}
	if a := p.Spec.Affinity; a != nil && a.PodAffinity != nil {
		terms(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		terms(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

// selectKeys adds the values that a pod's labels have for some keys. A selector that is absent selects nothing, and stays so.
func selectKeys(s *metav1.LabelSelector, keys []string, operator metav1.LabelSelectorOperator, labels map[string]string) {
	for _, key := range keys {
		if value, has := labels[key]; has && s != nil {
			s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: []string{value}})
		}
	}
}
