package kube

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// checkGates checks what a pod waits for before it is scheduled.
func checkGates(gates []corev1.PodSchedulingGate, at status.Field) {
	names := unique{}
	for i, g := range gates {
		if why := meta.CheckQualifiedName(g.Name); why != "" {
			at.Index(i).Invalid(g.Name, why)
		}
		names.check(at.Index(i), g.Name)
	}
}

// checkSpread checks how pods are spread.
func checkSpread(all []corev1.TopologySpreadConstraint, at status.Field) {
	pairs := map[string]bool{}
	for i, c := range all {
		one := at.Index(i)
		if c.MaxSkew <= 0 {
			one.Child("maxSkew").Invalid(c.MaxSkew, "must be greater than zero")
		}
		if c.TopologyKey == "" {
			one.Child("topologyKey").Required("can not be empty")
		}
		oneOf(one.Child("whenUnsatisfiable"), c.WhenUnsatisfiable, corev1.DoNotSchedule, corev1.ScheduleAnyway)
		pair := c.TopologyKey + ", " + string(c.WhenUnsatisfiable)
		if pairs[pair] {
			one.Child("{topologyKey, whenUnsatisfiable}").Duplicate("{" + pair + "}")
		}
		pairs[pair] = true
		if c.MinDomains != nil && *c.MinDomains <= 0 {
			one.Child("minDomains").Invalid(*c.MinDomains, "must be greater than zero")
		}
		for name, p := range map[string]*corev1.NodeInclusionPolicy{"nodeAffinityPolicy": c.NodeAffinityPolicy, "nodeTaintsPolicy": c.NodeTaintsPolicy} {
			if p != nil {
				oneOf(one.Child(name), *p, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)
			}
		}
		checkSelector(one.Child("labelSelector"), c.LabelSelector)
	}
}

// checkAffinity checks beside which pods, and on which nodes, a pod may run.
func checkAffinity(a *corev1.Affinity, at status.Field) {
	if a == nil {
		return
	}
	if n := a.NodeAffinity; n != nil {
		one := at.Child("nodeAffinity")
		if r := n.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
			checkNodeSelector(r, one.Child("requiredDuringSchedulingIgnoredDuringExecution"))
		}
		for i, p := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			term := one.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i)
			checkWeight(p.Weight, term.Child("weight"))
			checkNodeTerm(&p.Preference, term.Child("preference"))
		}
	}
	if p := a.PodAffinity; p != nil {
		checkPodTerms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, at.Child("podAffinity"))
	}
	if p := a.PodAntiAffinity; p != nil {
		checkPodTerms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, at.Child("podAntiAffinity"))
	}
}

func checkWeight(w int32, at status.Field) {
	if w < 1 || w > 100 {
		at.Invalid(w, "must be in the range 1-100")
	}
}

func checkNodeSelector(s *corev1.NodeSelector, at status.Field) {
	if len(s.NodeSelectorTerms) == 0 {
		at.Child("nodeSelectorTerms").Required("must have at least one node selector term")
	}
	for i := range s.NodeSelectorTerms {
		checkNodeTerm(&s.NodeSelectorTerms[i], at.Child("nodeSelectorTerms").Index(i))
	}
}

func checkNodeTerm(t *corev1.NodeSelectorTerm, at status.Field) {
	for i, r := range t.MatchExpressions {
		one := at.Child("matchExpressions").Index(i)
		switch r.Operator {
		case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
			if len(r.Values) == 0 {
				one.Child("values").Required("must be specified when `operator` is 'In' or 'NotIn'")
			}
		case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
			if len(r.Values) > 0 {
				one.Child("values").Forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
			}
		case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
			if len(r.Values) != 1 {
				one.Child("values").Required("must be specified single value when `operator` is 'Lt' or 'Gt'")
			}
		default:
			one.Child("operator").Invalid(string(r.Operator), "not a valid selector operator")
		}
		if why := meta.CheckLabelKey(r.Key); why != "" {
			one.Child("key").Invalid(r.Key, why)
		}
	}
	for i, r := range t.MatchFields {
		one := at.Child("matchFields").Index(i)
		switch r.Operator {
		case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
			if len(r.Values) != 1 {
				one.Child("values").Required("must be only one value when `operator` is 'In' or 'NotIn' for node field selector")
			}
		default:
			one.Child("operator").Invalid(string(r.Operator), "not a valid selector operator")
		}
		if r.Key != "metadata.name" {
			one.Child("key").Invalid(r.Key, "not a valid field selector key")
			continue
		}
		for j, v := range r.Values {
			if why := meta.CheckDNSSubdomain(v); why != "" {
				one.Child("values").Index(j).Invalid(v, why)
			}
		}
	}
}

func checkPodTerms(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, at status.Field) {
	for i := range required {
		checkPodTerm(&required[i], at.Child("requiredDuringSchedulingIgnoredDuringExecution").Index(i))
	}
	for i := range preferred {
		one := at.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i)
		checkWeight(preferred[i].Weight, one.Child("weight"))
		checkPodTerm(&preferred[i].PodAffinityTerm, one.Child("podAffinityTerm"))
	}
}

func checkPodTerm(t *corev1.PodAffinityTerm, at status.Field) {
	checkSelector(at.Child("labelSelector"), t.LabelSelector)
	checkSelector(at.Child("namespaceSelector"), t.NamespaceSelector)
	for _, name := range t.Namespaces {
		if why := meta.CheckDNSLabel(name); why != "" {
			at.Child("namespace").Invalid(name, why)
		}
	}
	if t.TopologyKey == "" {
		at.Child("topologyKey").Required("can not be empty")
	} else if why := meta.CheckLabelKey(t.TopologyKey); why != "" {
		at.Child("topologyKey").Invalid(t.TopologyKey, why)
	}
}
