package kube

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

func checkClaim(p *corev1.PersistentVolumeClaim, f *status.Fields) {
	checkAsked(&p.Spec, f.At("spec"))
}

func checkNewClaim(p *corev1.PersistentVolumeClaim, f *status.Fields) {
	checkSourceGroups(&p.Spec, f.At("spec"))
}

// checkClaimSpec checks what the claim of a template asks for.
func checkClaimSpec(s *corev1.PersistentVolumeClaimSpec, spec status.Field) {
	checkAsked(s, spec)
	checkSourceGroups(s, spec)
}

// checkAsked checks what a claim asks for, except for the groups of what it is filled from.
func checkAsked(s *corev1.PersistentVolumeClaimSpec, spec status.Field) {
	checkModes(s.AccessModes, spec.Child("accessModes"), "at least 1 access mode is required")
	amount, has := s.Resources.Requests[corev1.ResourceStorage]
	switch at := spec.Child("resources").Key("storage"); {
	case !has:
		at.Required("")
	case amount.Sign() <= 0:
		at.Invalid(amount.String(), "must be greater than zero")
	}
	checkSelector(spec.Child("selector"), s.Selector)
	class := func(name *string, at status.Field) {
		if name != nil && *name != "" {
			isSubdomain(at, *name)
		}
	}
	class(s.StorageClassName, spec.Child("storageClassName"))
	class(s.VolumeAttributesClassName, spec.Child("volumeAttributesClassName"))
	if m := s.VolumeMode; m != nil {
		oneOf(spec.Child("volumeMode"), *m, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
	}
	checkDataSources(s, spec)
}

// checkDataSources checks what a claim is filled from. It says so in two fields, which must not differ.
func checkDataSources(s *corev1.PersistentVolumeClaimSpec, spec status.Field) {
	source, ref := s.DataSource, s.DataSourceRef
	if source != nil {
		checkDataSource(source.APIGroup, source.Name, source.Kind, spec.Child("dataSource"))
	}
	if ref == nil {
		return
	}
	checkDataSource(ref.APIGroup, ref.Name, ref.Kind, spec.Child("dataSourceRef"))
	foreign := ref.Namespace != nil && *ref.Namespace != ""
	if foreign {
		isLabel(spec.Child("dataSourceRef").Child("namespace"), *ref.Namespace)
	}
	switch {
	case source == nil:
	case foreign:
		spec.Invalid(spec.Child("dataSource").Path().String(), "may not be specified when dataSourceRef.namespace is specified")
	case !equality.Semantic.DeepEqual(source.APIGroup, ref.APIGroup) || source.Kind != ref.Kind || source.Name != ref.Name:
		spec.Invalid(spec.Child("dataSource").Path().String(), "must match dataSourceRef")
	}
}

// checkDataSource checks what a volume is filled from, except for its group.
func checkDataSource(group *string, name, kind string, at status.Field) {
	if name == "" {
		at.Child("name").Required("")
	}
	if kind == "" {
		at.Child("kind").Required("")
	}
	if (group == nil || *group == "") && kind != "PersistentVolumeClaim" {
		at.Invalid(kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
	}
}

// checkSourceGroups checks the groups of what a volume is filled from. A claim that has named a group may keep any.
func checkSourceGroups(s *corev1.PersistentVolumeClaimSpec, spec status.Field) {
	check := func(group *string, at status.Field) {
		if group != nil && *group != "" {
			isSubdomain(at.Child("apiGroup"), *group)
		}
	}
	if s.DataSource != nil {
		check(s.DataSource.APIGroup, spec.Child("dataSource"))
	}
	if s.DataSourceRef != nil {
		check(s.DataSourceRef.APIGroup, spec.Child("dataSourceRef"))
	}
}

// checkModes checks how a volume may be mounted.
func checkModes(modes []corev1.PersistentVolumeAccessMode, at status.Field, none string) {
	if len(modes) == 0 {
		at.Required(none)
	}
	alone, other := false, false
	for _, m := range modes {
		switch {
		case !oneOf(at, m, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod):
		case m == corev1.ReadWriteOncePod:
			alone = true
		default:
			other = true
		}
	}
	if alone && other {
		at.Forbidden("may not use ReadWriteOncePod with other access modes")
	}
}

// checkClaimUpdate keeps a claim as it is, except for what a bound one may still ask for.
func checkClaimUpdate(p, old *corev1.PersistentVolumeClaim, f *status.Fields) {
	if s := old.Spec; (s.DataSource == nil || s.DataSource.APIGroup == nil) && (s.DataSourceRef == nil || s.DataSourceRef.APIGroup == nil) {
		checkSourceGroups(&p.Spec, f.At("spec"))
	}
	now, before := p.Spec.DeepCopy(), old.Spec.DeepCopy()
	if before.VolumeName == "" {
		before.VolumeName = now.VolumeName // it is being bound
	}
	checkClassUpdate(p, old, now, f)
	if p.Status.Phase == corev1.ClaimBound {
		if now.Resources.Requests != nil {
			now.Resources.Requests[corev1.ResourceStorage] = before.Resources.Requests[corev1.ResourceStorage]
		}
		now.VolumeAttributesClassName = before.VolumeAttributesClassName
	}
	if !equality.Semantic.DeepEqual(now, before) {
		f.At("spec").Forbidden("spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims")
	}
	is, was := p.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	if is.Cmp(was) < 0 && is.Cmp(old.Status.Capacity[corev1.ResourceStorage]) <= 0 {
		f.At("spec", "resources", "requests", "storage").Forbidden("field can not be less than status.capacity")
	}
	same(f.At("volumeMode"), equality.Semantic.DeepEqual(p.Spec.VolumeMode, old.Spec.VolumeMode), p.Spec.VolumeMode)
	if old.Spec.VolumeAttributesClassName == nil || old.Status.CurrentVolumeAttributesClassName == nil {
		return
	}
	switch class := p.Spec.VolumeAttributesClassName; {
	case class == nil:
		f.At("spec", "volumeAttributesClassName").Forbidden("update to nil is forbidden when status.currentVolumeAttributesClassName is not nil")
	case *class == "" && *old.Spec.VolumeAttributesClassName != "":
		f.At("spec", "volumeAttributesClassName").Forbidden("update to empty string is forbidden when status.currentVolumeAttributesClassName is not nil")
	}
}

// checkClassUpdate lets a claim get a class that it did not name, and move the name from the annotation of old into the
// field. In now, which is compared with the spec of the old claim, it takes such a change back.
func checkClassUpdate(p, old *corev1.PersistentVolumeClaim, now *corev1.PersistentVolumeClaimSpec, f *status.Fields) {
	class, had := old.Annotations[corev1.BetaStorageClassAnnotation]
	annotated, has := p.Annotations[corev1.BetaStorageClassAnnotation]
	named := old.Spec.StorageClassName == nil && now.StorageClassName != nil
	moved := named && had && *now.StorageClassName == class
	if !moved || has && annotated != class {
		same(f.At("metadata", "annotations", corev1.BetaStorageClassAnnotation), annotated == class, annotated)
	}
	if moved || named && !had {
		now.StorageClassName = nil
	}
}

// checkClaimStatus checks what a controller says of the size of a volume.
func checkClaimStatus(c, _ *corev1.PersistentVolumeClaim, f *status.Fields) {
	s, at := &c.Status, f.At("status")
	amount := func(q int64, at status.Field) {
		if q < 0 {
			at.Invalid(q, "must be a valid resource quantity")
		}
	}
	for _, name := range amountNames(s.Capacity) {
		q := s.Capacity[name]
		amount(q.Value(), at.Child("capacity").Key(string(name)))
	}
	for _, name := range slices.Sorted(maps.Keys(s.AllocatedResourceStatuses)) {
		one := at.Child("allocatedResourceStatuses")
		isClaimed(string(name), one)
		switch s.AllocatedResourceStatuses[name] {
		case corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimControllerResizeInfeasible,
			corev1.PersistentVolumeClaimNodeResizePending, corev1.PersistentVolumeClaimNodeResizeInProgress,
			corev1.PersistentVolumeClaimNodeResizeInfeasible:
		default: // kube-apiserver reports the name
			one.NotSupported(string(name), "ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress",
				"NodeResizeInfeasible", "NodeResizePending")
		}
	}
	for _, name := range amountNames(s.AllocatedResources) {
		one := at.Child("allocatedResources")
		if isClaimed(string(name), one) {
			q := s.AllocatedResources[name]
			amount(q.Value(), one.Key(string(name)))
		}
	}
}

// isClaimed reports a resource that no claim can have: of those of Kubernetes, only storage is one.
func isClaimed(name string, at status.Field) bool {
	if why := meta.CheckQualifiedName(name); why != "" {
		at.Invalid(name, why)
		return false
	}
	own := !strings.Contains(name, "/") || strings.Contains(name, "kubernetes.io/")
	return !own || oneOf(at, corev1.ResourceName(name), corev1.ResourceStorage)
}
