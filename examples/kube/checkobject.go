package kube

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/kindwright/kindwright/authz/rbac"
	"github.com/kindwright/kindwright/internal/entries"
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

func checkVolumeObject(v *corev1.PersistentVolume, f *status.Fields) {
	spec := f.At("spec")
	checkModes(v.Spec.AccessModes, spec.Child("accessModes"))
	if len(v.Spec.Capacity) == 0 {
		spec.Child("capacity").Required("")
	}
	if _, has := v.Spec.Capacity[corev1.ResourceStorage]; !has || len(v.Spec.Capacity) > 1 {
		spec.Child("capacity").NotSupported(v.Spec.Capacity, string(corev1.ResourceStorage))
	} else if q := v.Spec.Capacity[corev1.ResourceStorage]; q.Sign() <= 0 {
		spec.Child("capacity").Key("storage").Invalid(q.String(), "must be greater than zero")
	}
	if atMostOne(reflect.ValueOf(v.Spec.PersistentVolumeSource), spec) == 0 {
		spec.Required("must specify a volume type")
	}
	checkHostPath(v.Spec.HostPath, spec.Child("hostPath"))
	oneOf(spec.Child("persistentVolumeReclaimPolicy"), v.Spec.PersistentVolumeReclaimPolicy,
		corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain)
}

func checkVolumeObjectUpdate(v, old *corev1.PersistentVolume, f *status.Fields) {
	if !reflect.DeepEqual(v.Spec.PersistentVolumeSource, old.Spec.PersistentVolumeSource) {
		f.At("spec", "persistentvolumesource").Forbidden("spec.persistentvolumesource is immutable after creation")
	}
}

func checkModes(modes []corev1.PersistentVolumeAccessMode, at status.Field) {
	if len(modes) == 0 {
		at.Required("at least 1 access mode is required")
	}
	for _, m := range modes {
		oneOf(at, m, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod)
	}
	other := slices.ContainsFunc(modes, func(m corev1.PersistentVolumeAccessMode) bool { return m != corev1.ReadWriteOncePod })
	if slices.Contains(modes, corev1.ReadWriteOncePod) && other {
		at.Forbidden("may not use ReadWriteOncePod with other access modes")
	}
}

func checkClaim(p *corev1.PersistentVolumeClaim, f *status.Fields) {
	checkClaimSpec(&p.Spec, f.At("spec"))
}

func checkClaimUpdate(p, old *corev1.PersistentVolumeClaim, f *status.Fields) {
	now, before := p.Spec.DeepCopy(), old.Spec.DeepCopy()
	now.Resources.Requests, now.VolumeAttributesClassName = before.Resources.Requests, before.VolumeAttributesClassName
	if before.VolumeName == "" {
		now.VolumeName = "" // it is being bound
	}
	if before.StorageClassName == nil {
		now.StorageClassName = nil
	}
	if !reflect.DeepEqual(now, before) {
		f.At("spec").Forbidden("spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims")
	}
	is, was := p.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	if is.Cmp(was) < 0 {
		f.At("spec", "resources", "requests", "storage").Forbidden("field can not be less than status.capacity")
	}
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
		checkSelector(f.At("aggregationRule", "clusterRoleSelectors").Index(i), &r.AggregationRule.ClusterRoleSelectors[i])
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
	if c.Overhead != nil {
		for _, name := range amountNames(c.Overhead.PodFixed) {
			if q := c.Overhead.PodFixed[name]; q.Sign() < 0 {
				f.At("overhead", "podFixed").Key(string(name)).Invalid(q.String(), "must be greater than or equal to 0")
			}
		}
	}
	if s := c.Scheduling; s != nil {
		checkLabels(f.At("scheduling", "nodeSelector"), s.NodeSelector)
		checkTolerations(s.Tolerations, f.At("scheduling", "tolerations"))
	}
}

func checkRuntimeClassUpdate(c, old *nodev1.RuntimeClass, f *status.Fields) {
	same(f.At("handler"), c.Handler == old.Handler, c.Handler)
}

// checkProvisioner checks the name of what makes volumes, which need not be a driver of CSI.
func checkProvisioner(name string, at status.Field) {
	if name == "" {
		at.Required("")
	} else if why := meta.CheckQualifiedName(strings.ToLower(name)); why != "" {
		at.Invalid(name, why)
	}
}

// checkParameters checks what the maker of volumes is told.
func checkParameters(all map[string]string, at status.Field) {
	const maxCount, maxBytes = 512, 256 << 10
	if len(all) > maxCount {
		at.TooLong(maxCount)
		return
	}
	size := 0
	for name, value := range all {
		if name == "" {
			at.Invalid(name, "field can not be empty.")
		}
		size += len(name) + len(value)
	}
	if size > maxBytes {
		at.TooLong(maxBytes)
	}
}

func checkStorageClass(c *storagev1.StorageClass, f *status.Fields) {
	checkProvisioner(c.Provisioner, f.At("provisioner"))
	checkParameters(c.Parameters, f.At("parameters"))
	if c.ReclaimPolicy != nil {
		oneOf(f.At("reclaimPolicy"), *c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)
	}
	if c.VolumeBindingMode != nil {
		oneOf(f.At("volumeBindingMode"), *c.VolumeBindingMode, storagev1.VolumeBindingImmediate,
			storagev1.VolumeBindingWaitForFirstConsumer)
	}
}

func checkStorageClassUpdate(c, old *storagev1.StorageClass, f *status.Fields) {
	if !maps.Equal(c.Parameters, old.Parameters) {
		f.At("parameters").Forbidden("updates to parameters are forbidden.")
	}
	if c.Provisioner != old.Provisioner {
		f.At("provisioner").Forbidden("updates to provisioner are forbidden.")
	}
	same(f.At("reclaimPolicy"), reflect.DeepEqual(c.ReclaimPolicy, old.ReclaimPolicy), c.ReclaimPolicy)
	same(f.At("volumeBindingMode"), reflect.DeepEqual(c.VolumeBindingMode, old.VolumeBindingMode), c.VolumeBindingMode)
}

// Names and priorities from here on belong to the system.
const (
	systemPrefix   = "system-"
	highestOfUsers = 1000000000
)

func checkPriorityClass(c *schedulingv1.PriorityClass, f *status.Fields) {
	critical := c.Name == "system-cluster-critical" || c.Name == "system-node-critical"
	switch {
	case strings.HasPrefix(c.Name, systemPrefix) && !critical:
		f.At("metadata", "name").Forbidden("priority class names with '" + systemPrefix + "' prefix are reserved for system use only")
	case !critical && c.Value > highestOfUsers:
		f.At("value").Forbidden("maximum allowed value of a user defined priority is 1000000000")
	}
	if c.PreemptionPolicy != nil {
		oneOf(f.At("preemptionPolicy"), *c.PreemptionPolicy, corev1.PreemptLowerPriority, corev1.PreemptNever)
	}
}

func checkPriorityClassUpdate(c, old *schedulingv1.PriorityClass, f *status.Fields) {
	if c.Value != old.Value {
		f.At("value").Forbidden("the value of a class stays")
	}
	same(f.At("preemptionPolicy"), reflect.DeepEqual(c.PreemptionPolicy, old.PreemptionPolicy), c.PreemptionPolicy)
}
