package kube

import corev1 "k8s.io/api/core/v1"

// Some fields exist twice in Kubernetes' types: an older one for a single value, and a list that
// begins with it. Kubernetes' conversions keep the two in step, and so do these functions. Where
// both are set and differ, the single value counts, since an older client may know only that one.

// inStep keeps a single value and a list of values in step.
func inStep[T comparable](one *T, all *[]T) {
	var none T
	switch {
	case *one == none && len(*all) > 0:
		*one = (*all)[0]
	case *one != none && (len(*all) == 0 || (*all)[0] != *one):
		*all = []T{*one}
	}
}

// fillPodAddresses keeps podIP and podIPs in step. The host's addresses are not: a kubelet that sends hostIPs sends
// hostIP, too, and it is an error if they differ.
func fillPodAddresses(s *corev1.PodStatus) {
	pod := corev1.PodIP{IP: s.PodIP}
	inStep(&pod, &s.PodIPs)
	s.PodIP = pod.IP
}
