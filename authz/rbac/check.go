package rbac

import (
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// CheckRules reports what is wrong with the rules of a role, in the words of Kubernetes.
func CheckRules(rules []PolicyRule, f *status.Fields, cluster bool) {
	for i, r := range rules {
		one := f.At("rules").Index(i)
		if len(r.Verbs) == 0 {
			one.Child("verbs").Required("verbs must contain at least one value")
		}
		if len(r.NonResourceURLs) > 0 {
			if !cluster {
				one.Child("nonResourceURLs").Invalid(r.NonResourceURLs, "namespaced rules cannot apply to non-resource URLs")
			}
			if len(r.APIGroups)+len(r.Resources)+len(r.ResourceNames) > 0 {
				one.Child("nonResourceURLs").Invalid(r.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs")
			}
			continue
		}
		if len(r.APIGroups) == 0 {
			one.Child("apiGroups").Required("resource rules must supply at least one api group")
		}
		if len(r.Resources) == 0 {
			one.Child("resources").Required("resource rules must supply at least one resource")
		}
	}
}

// CheckAggregation reports what is wrong with an aggregation rule.
func CheckAggregation(a *AggregationRule, f *status.Fields) {
	if a == nil {
		return
	}
	at := f.At("aggregationRule", "clusterRoleSelectors")
	if len(a.ClusterRoleSelectors) == 0 {
		at.Required("at least one clusterRoleSelector required if aggregationRule is non-nil")
	}
	for i := range a.ClusterRoleSelectors {
		if _, err := meta.SelectorFrom(&a.ClusterRoleSelectors[i]); err != nil {
			at.Index(i).Invalid(a.ClusterRoleSelectors[i], err.Error())
		}
	}
}

// FillBinding sets the groups that a client may leave away. Group is that of the kinds.
func FillBinding(group string, of *RoleRef, subjects []Subject) {
	if of.APIGroup == "" {
		of.APIGroup = group
	}
	for i := range subjects {
		if s := &subjects[i]; s.APIGroup == "" && (s.Kind == KindUser || s.Kind == KindGroup) {
			s.APIGroup = group
		}
	}
}

// CheckBinding reports what is wrong with the role reference and the subjects of a binding.
func CheckBinding(group string, of RoleRef, subjects []Subject, f *status.Fields, cluster bool) {
	if of.APIGroup != group {
		f.At("roleRef", "apiGroup").NotSupported(of.APIGroup, group)
	}
	switch {
	case of.Kind == KindClusterRole, of.Kind == KindRole && !cluster:
	case cluster:
		f.At("roleRef", "kind").NotSupported(of.Kind, KindClusterRole)
	default:
		f.At("roleRef", "kind").NotSupported(of.Kind, KindRole, KindClusterRole)
	}
	if of.Name == "" {
		f.At("roleRef", "name").Required("")
	} else if why := meta.CheckPathSegment(of.Name); why != "" {
		f.At("roleRef", "name").Invalid(of.Name, why)
	}
	for i, s := range subjects {
		s.check(group, f.At("subjects").Index(i), cluster)
	}
}

func (s Subject) check(group string, at status.Field, cluster bool) {
	if s.Name == "" {
		at.Child("name").Required("")
	}
	switch s.Kind {
	case KindServiceAccount:
		if s.Name != "" {
			if why := meta.CheckDNSSubdomain(s.Name); why != "" {
				at.Child("name").Invalid(s.Name, why)
			}
		}
		if s.APIGroup != "" {
			at.Child("apiGroup").NotSupported(s.APIGroup, "")
		}
		if s.Namespace == "" && cluster {
			at.Child("namespace").Required("")
		}
	case KindUser, KindGroup:
		if s.APIGroup != group {
			at.Child("apiGroup").NotSupported(s.APIGroup, group)
		}
	default:
		at.Child("kind").NotSupported(s.Kind, KindServiceAccount, KindUser, KindGroup)
	}
}

// CheckRoleRef reports a change of the role of a binding: a binding to another role is another
// binding.
// Source: RBAC-07.
func CheckRoleRef(of, old RoleRef, f *status.Fields) {
	if of != old {
		f.At("roleRef").Invalid(struct{ APIGroup, Kind, Name string }(of), "cannot change roleRef") // as Kubernetes writes it
	}
}
