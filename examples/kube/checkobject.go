package kube

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kindwright/kindwright/authz/rbac"
	"github.com/kindwright/kindwright/internal/entries"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

func checkConfigMap(m *corev1.ConfigMap, f *status.Fields) {
	entries.CheckConfigMap(f, m.Data, m.BinaryData)
}

func checkConfigMapUpdate(m, old *corev1.ConfigMap, f *status.Fields) {
	entries.Sealed(f, old.Immutable, m.Immutable, map[string]bool{
		"data": maps.Equal(m.Data, old.Data), "binaryData": entries.Equal(m.BinaryData, old.BinaryData),
	})
}

func checkSecret(s *corev1.Secret, f *status.Fields) {
	entries.CheckSecret(f, string(s.Type), s.Data, s.Annotations)
}

func checkSecretUpdate(s, old *corev1.Secret, f *status.Fields) {
	same(f.At("type"), s.Type == old.Type, string(s.Type))
	entries.Sealed(f, old.Immutable, s.Immutable, map[string]bool{"data": entries.Equal(s.Data, old.Data)})
}

// checkRole reports what is wrong with a role. The rules are those of the library.
func checkRole(rules []rbacv1.PolicyRule, f *status.Fields) {
	rbac.CheckRules(ownRules(rules), f, false)
}

// checkClusterRole is checkRole for one that counts everywhere.
func checkClusterRole(r *rbacv1.ClusterRole, f *status.Fields) {
	rbac.CheckRules(ownRules(r.Rules), f, true)
	if r.AggregationRule == nil {
		return
	}
	if len(r.AggregationRule.ClusterRoleSelectors) == 0 {
		rbac.CheckAggregation(&rbac.AggregationRule{}, f)
	}
	for i := range r.AggregationRule.ClusterRoleSelectors {
		at, selector := f.At("aggregationRule", "clusterRoleSelectors").Index(i), &r.AggregationRule.ClusterRoleSelectors[i]
		checkSelector(at, selector)
		if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
			at.Invalid(nil, "invalid label selector.")
		}
	}
}

func ownRules(rules []rbacv1.PolicyRule) []rbac.PolicyRule {
	out := make([]rbac.PolicyRule, 0, len(rules))
	for _, r := range rules {
		out = append(out, rbac.PolicyRule{Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames, NonResourceURLs: r.NonResourceURLs})
	}
	return out
}

// checkBinding reports invalid subjects and role references of a binding.
func checkBinding(ref rbacv1.RoleRef, subjects []rbacv1.Subject, f *status.Fields, everywhere bool) {
	own := make([]rbac.Subject, 0, len(subjects))
	for _, s := range subjects {
		own = append(own, rbac.Subject{Kind: s.Kind, APIGroup: s.APIGroup, Name: s.Name, Namespace: s.Namespace})
	}
	rbac.CheckBinding(rbacv1.GroupName, ownRef(ref), own, f, everywhere)
}

func ownRef(r rbacv1.RoleRef) rbac.RoleRef {
	return rbac.RoleRef{APIGroup: r.APIGroup, Kind: r.Kind, Name: r.Name}
}

// checkRoleRef requires that a binding keeps its role.
func checkRoleRef(ref, old rbacv1.RoleRef, f *status.Fields) {
	rbac.CheckRoleRef(ownRef(ref), ownRef(old), f)
}

func checkRuntimeClass(c *nodev1.RuntimeClass, f *status.Fields) {
	isLabel(f.At("handler"), c.Handler)
	if c.Overhead != nil { // which is checked as the limits of a container are
		checkResources(&corev1.ResourceRequirements{Limits: c.Overhead.PodFixed}, f.At("overhead"), nil, checkContainerAmount)
	}
	if s := c.Scheduling; s != nil {
		checkLabels(f.At("scheduling", "nodeSelector"), s.NodeSelector)
		at, seen := f.At("scheduling", "tolerations"), map[corev1.Toleration]bool{}
		checkTolerations(s.Tolerations, at)
		for i, t := range s.Tolerations {
			key := corev1.Toleration{Key: t.Key, Operator: t.Operator, Value: t.Value, Effect: t.Effect}
			if seen[key] {
				at.Index(i).Duplicate(t)
			}
			seen[key] = true
		}
	}
}

func checkRuntimeClassUpdate(c, old *nodev1.RuntimeClass, f *status.Fields) {
	same(f.At("handler"), c.Handler == old.Handler, c.Handler)
}

// Names and priorities from here on belong to the system.
const (
	systemPrefix   = "system-"
	highestOfUsers = 1000000000
)

func checkPriorityClass(c *schedulingv1.PriorityClass, f *status.Fields) {
	switch {
	case strings.HasPrefix(c.Name, systemPrefix):
		if why := notOfSystem(c); why != "" {
			f.At("metadata", "name").Forbidden("priority class names with '" + systemPrefix + "' prefix are reserved for system use only. error: " + why)
		}
	case c.Value > highestOfUsers:
		f.At("value").Forbidden("maximum allowed value of a user defined priority is 1000000000")
	}
	if c.PreemptionPolicy != nil {
		oneOf(f.At("preemptionPolicy"), *c.PreemptionPolicy, corev1.PreemptLowerPriority, corev1.PreemptNever)
	}
}

// systemClasses are the values of the priority classes that a cluster has from its start, by their names.
func systemClasses() map[string]int32 {
	return map[string]int32{"system-cluster-critical": 2000000000, "system-node-critical": 2000001000}
}

// notOfSystem returns why a class is none of those, or "".
func notOfSystem(c *schedulingv1.PriorityClass) string {
	switch value, known := systemClasses()[c.Name]; {
	case !known:
		return c.Name + " is not a known system priority class"
	case c.Value != value:
		return fmt.Sprintf("value of %s PriorityClass must be %d", c.Name, value)
	case c.GlobalDefault:
		return fmt.Sprintf("globalDefault of %s PriorityClass must be false", c.Name)
	}
	return ""
}

// keepSystemClass refuses to delete a class that a cluster has from its start. Collections are deleted as a whole, as in Kubernetes.
func keepSystemClass(ctx context.Context, c *schedulingv1.PriorityClass) error {
	info := request.From(ctx)
	if _, known := systemClasses()[c.Name]; !known || info != nil && info.Verb == request.VerbDeleteCollection {
		return nil
	}
	of := meta.GroupResource{Group: schedulingv1.GroupName, Resource: "priorityclasses"}
	return status.Forbidden(of, c.Name, "this is a system priority class and cannot be deleted")
}

func checkPriorityClassUpdate(c, old *schedulingv1.PriorityClass, f *status.Fields) {
	if c.Value != old.Value {
		f.At("value").Forbidden("may not be changed in an update.")
	}
	same(f.At("preemptionPolicy"), reflect.DeepEqual(c.PreemptionPolicy, old.PreemptionPolicy), c.PreemptionPolicy)
}
