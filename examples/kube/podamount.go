package kube

import corev1 "k8s.io/api/core/v1"

// podTotal sums up what the containers of a pod request, or their limits. Init containers run one after the
// other, before the others, except for those that go on beside them. What is said of the pod as a whole
// counts instead of the sum. With reported, the amounts that a node reports count too: a container
// that shrinks has what it had until the node says otherwise.
func podTotal(p *corev1.Pod, limits, reported bool) corev1.ResourceList {
	total := containersOfPod(p, limits, reported)
	if p.Spec.Resources != nil {
		for name, amount := range amountsOf(p.Spec.Resources, limits) {
			if countsForPod(name) {
				total[name] = amount
			}
		}
	}
	return total
}

// containersTotal is podTotal without what is said of the pod as a whole, and without what its node reports.
func containersTotal(s *corev1.PodSpec, limits bool) corev1.ResourceList {
	return containersOfPod(&corev1.Pod{Spec: *s}, limits, false)
}

func containersOfPod(p *corev1.Pod, limits, reported bool) corev1.ResourceList {
	total, beside, most := corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}
	for i := range p.Spec.Containers {
		addAmounts(total, containerAmounts(p, &p.Spec.Containers[i], limits, reported))
	}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		sidecar := isSidecar(c)
		own := containerAmounts(p, c, limits, reported && sidecar)
		now := corev1.ResourceList{}
		addAmounts(now, own)
		addAmounts(now, beside)
		if sidecar {
			addAmounts(total, own)
			addAmounts(beside, own)
		}
		raiseAmounts(most, now)
	}
	raiseAmounts(total, most)
	return total
}

// countsForPod reports whether a resource can be requested for a pod as a whole.
func countsForPod(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || hugePages(name)
}

func amountsOf(r *corev1.ResourceRequirements, limits bool) corev1.ResourceList {
	if limits {
		return r.Limits
	}
	return r.Requests
}

// containerAmounts returns what one container requests, or its limits.
func containerAmounts(p *corev1.Pod, c *corev1.Container, limits, reported bool) corev1.ResourceList {
	asked := amountsOf(&c.Resources, limits)
	if !reported {
		return asked
	}
	for _, all := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range all {
			s := &all[i]
			if s.Name != c.Name || s.Resources == nil {
				continue
			}
			out := corev1.ResourceList{}
			if !cannotResize(p) {
				raiseAmounts(out, asked)
			}
			raiseAmounts(out, amountsOf(s.Resources, limits))
			if !limits {
				raiseAmounts(out, s.AllocatedResources)
			}
			return out
		}
	}
	return asked
}

// cannotResize reports whether the node of a pod can never give it what it asks for.
func cannotResize(p *corev1.Pod) bool {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == corev1.PodResizePending {
			return p.Status.Conditions[i].Reason == corev1.PodReasonInfeasible
		}
	}
	return false
}

// addAmounts adds amounts to others.
func addAmounts(to, more corev1.ResourceList) {
	for name, amount := range more {
		sum := to[name].DeepCopy()
		if _, has := to[name]; !has {
			sum = amount.DeepCopy()
		} else {
			sum.Add(amount)
		}
		to[name] = sum
	}
}

// raiseAmounts raises amounts to others that are higher.
func raiseAmounts(to, other corev1.ResourceList) {
	for name, amount := range other {
		if now, has := to[name]; !has || amount.Cmp(now) > 0 {
			to[name] = amount.DeepCopy()
		}
	}
}
