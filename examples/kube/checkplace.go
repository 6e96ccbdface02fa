package kube

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	pair := func(c *corev1.TopologySpreadConstraint) [2]string {
		return [2]string{c.TopologyKey, string(c.WhenUnsatisfiable)}
	}
	last := map[[2]string]int{}
	for i := range all {
		last[pair(&all[i])] = i
	}
	for i, c := range all {
		one := at.Index(i)
		if c.MaxSkew <= 0 {
			one.Child("maxSkew").Invalid(c.MaxSkew, "must be greater than zero")
		}
		if c.TopologyKey == "" {
			one.Child("topologyKey").Required("can not be empty")
		}
		oneOf(one.Child("whenUnsatisfiable"), c.WhenUnsatisfiable, corev1.DoNotSchedule, corev1.ScheduleAnyway)
		if last[pair(&c)] > i {
			one.Child("{topologyKey, whenUnsatisfiable}").Duplicate("{" + c.TopologyKey + ", " + string(c.WhenUnsatisfiable) + "}")
		}
		if n := c.MinDomains; n != nil {
			if *n <= 0 {
				one.Child("minDomains").Invalid(*n, "must be greater than zero")
			}
			if c.WhenUnsatisfiable != corev1.DoNotSchedule {
				one.Child("minDomains").Invalid(*n, "can only use minDomains if whenUnsatisfiable=DoNotSchedule")
			}
		}
		if p := c.NodeAffinityPolicy; p != nil {
			oneOf(one.Child("nodeAffinityPolicy"), *p, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)
		}
		if p := c.NodeTaintsPolicy; p != nil {
			oneOf(one.Child("nodeTaintsPolicy"), *p, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)
		}
		checkLabelKeys(c.MatchLabelKeys, nil, c.LabelSelector, one)
		checkSelector(one.Child("labelSelector"), c.LabelSelector)
	}
}

// checkLabelKeys checks the keys of labels whose values a pod shares with others, or does not share. The selector has what
// they stand for already. An index stands where kube-apiserver has it.
func checkLabelKeys(match, mismatch []string, s *metav1.LabelSelector, at status.Field) {
	keys := func(at status.Field, all []string) {
		if len(all) > 0 && s == nil {
			at.Forbidden("must not be specified when labelSelector is not set")
			return
		}
		for i, key := range all {
			if why := meta.CheckLabelKey(key); why != "" {
				at.Index(i).Invalid(key, why)
			}
		}
	}
	keys(at.Child("matchLabelKeys"), match)
	keys(at.Child("mismatchLabelKeys"), mismatch)
	if s != nil {
		selected, last := map[string]bool{}, map[string]int{}
		for i, key := range match {
			last[key] = i
		}
		for key := range s.MatchLabels {
			selected[key] = true
		}
		for _, e := range s.MatchExpressions {
			if i, has := last[e.Key]; has && selected[e.Key] {
				at.Index(i).Invalid(e.Key, "exists in both matchLabelKeys and labelSelector")
			}
			selected[e.Key] = true
		}
	}
	both := setOf(mismatch)
	for i, key := range match {
		if both[key] {
			at.Child("matchLabelKeys").Index(i).Invalid(key, "exists in both matchLabelKeys and mismatchLabelKeys")
		}
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
			checkNodeTerm(&p.Preference, term.Child("preference"), false)
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
		checkNodeTerm(&s.NodeSelectorTerms[i], at.Child("nodeSelectorTerms").Index(i), true)
	}
}

// checkNodeTerm checks what a term says of a node. The values of terms that are only preferred may be any text.
func checkNodeTerm(t *corev1.NodeSelectorTerm, at status.Field, strict bool) {
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
		for j, value := range r.Values {
			if why := meta.CheckLabelValue(value); why != "" && strict {
				one.Child("values").Index(j).Invalid(value, why)
			}
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
	checkLabelKeys(t.MatchLabelKeys, t.MismatchLabelKeys, t.LabelSelector, at)
	if t.TopologyKey == "" {
		at.Child("topologyKey").Required("can not be empty")
	}
	if why := meta.CheckLabelKey(t.TopologyKey); why != "" {
		at.Child("topologyKey").Invalid(t.TopologyKey, why)
	}
}

// checkTolerations checks which taints of nodes do not keep a pod away.
func checkTolerations(all []corev1.Toleration, at status.Field) {
	for i, t := range all {
		one := at.Index(i)
		if t.Key != "" {
			if why := meta.CheckLabelKey(t.Key); why != "" {
				one.Child("key").Invalid(t.Key, why)
			}
		} else if t.Operator != corev1.TolerationOpExists {
			one.Child("operator").Invalid(string(t.Operator),
				"operator must be Exists when `key` is empty, which means \"match all values and all keys\"")
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			one.Child("effect").Invalid(string(t.Effect), "effect must be 'NoExecute' when `tolerationSeconds` is set")
		}
		switch why := meta.CheckLabelValue(t.Value); t.Operator {
		case corev1.TolerationOpEqual, "":
			if why != "" {
				one.Child("operator").Invalid(t.Value, why)
			}
		case corev1.TolerationOpExists:
			if t.Value != "" {
				one.Child("operator").Invalid(t.Value, "value must be empty when `operator` is 'Exists'")
			}
		default: // Lt and Gt are those of a feature that is off
			oneOf(one.Child("operator"), t.Operator, corev1.TolerationOpEqual, corev1.TolerationOpExists)
		}
		if t.Effect != "" {
			oneOf(one.Child("effect"), t.Effect, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule,
				corev1.TaintEffectNoExecute)
		}
	}
}
