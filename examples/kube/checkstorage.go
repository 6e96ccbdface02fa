package kube

import (
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// checkClaimSpec checks what a claim asks for, also that of a template.
func checkClaimSpec(s *corev1.PersistentVolumeClaimSpec, spec status.Field) {
	checkModes(s.AccessModes, spec.Child("accessModes"))
	amount, has := s.Resources.Requests[corev1.ResourceStorage]
	switch at := spec.Child("resources").Key("storage"); {
	case !has:
		at.Required("")
	case amount.Sign() <= 0:
		at.Invalid(amount.String(), "must be greater than zero")
	}
	checkSelector(spec.Child("selector"), s.Selector)
	if c := s.StorageClassName; c != nil && *c != "" {
		isSubdomain(spec.Child("storageClassName"), *c)
	}
	if m := s.VolumeMode; m != nil {
		oneOf(spec.Child("volumeMode"), *m, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
	}
	if d := s.DataSource; d != nil {
		checkSource(d.APIGroup, d.Name, d.Kind, spec.Child("dataSource"))
	}
	if d := s.DataSourceRef; d != nil {
		checkSource(d.APIGroup, d.Name, d.Kind, spec.Child("dataSourceRef"))
	}
}

// checkSource checks what a volume is filled from.
func checkSource(group *string, name, kind string, at status.Field) {
	if name == "" {
		at.Child("name").Required("")
	}
	if kind == "" {
		at.Child("kind").Required("")
	}
	switch {
	case group == nil || *group == "":
		if kind != "PersistentVolumeClaim" {
			at.Invalid(kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
		}
	case meta.CheckDNSSubdomain(*group) != "":
		at.Child("apiGroup").Invalid(*group, meta.CheckDNSSubdomain(*group))
	}
}

func checkAttachment(a *storagev1.VolumeAttachment, f *status.Fields) {
	spec := f.At("spec")
	checkDriver(spec.Child("attacher"), a.Spec.Attacher)
	source := spec.Child("source")
	switch s := a.Spec.Source; {
	case s.InlineVolumeSpec == nil && s.PersistentVolumeName == nil:
		source.Required("must specify exactly one of inlineVolumeSpec and persistentVolumeName")
	case s.InlineVolumeSpec != nil && s.PersistentVolumeName != nil:
		source.Forbidden("must specify exactly one of inlineVolumeSpec and persistentVolumeName")
	case s.PersistentVolumeName != nil:
		if *s.PersistentVolumeName == "" {
			source.Child("persistentVolumeName").Required("must specify non empty persistentVolumeName")
		}
		if why := meta.CheckDNSSubdomain(*s.PersistentVolumeName); why != "" {
			source.Child("persistentVolumeName").Invalid(*s.PersistentVolumeName, why)
		}
	}
	if why := meta.CheckDNSSubdomain(a.Spec.NodeName); why != "" {
		spec.Child("nodeName").Invalid(a.Spec.NodeName, why)
	}
}

func checkAttachmentUpdate(a, old *storagev1.VolumeAttachment, f *status.Fields) {
	unchanged := a.Spec.Attacher == old.Spec.Attacher && a.Spec.NodeName == old.Spec.NodeName && reflect.DeepEqual(a.Spec.Source, old.Spec.Source)
	same(f.At("spec"), unchanged, a.Spec)
}

func checkDriverNode(n *storagev1.CSINode, f *status.Fields) {
	names := unique{}
	for i, d := range n.Spec.Drivers {
		one := f.At("spec", "drivers").Index(i)
		checkDriver(one.Child("name"), d.Name)
		names.check(one.Child("name"), d.Name)
		switch id := one.Child("nodeID"); {
		case d.NodeID == "":
			id.Required("")
		case len(d.NodeID) > 192:
			id.Invalid(d.NodeID, "must be 192 characters or less")
		}
		if d.Allocatable != nil && d.Allocatable.Count != nil && *d.Allocatable.Count < 0 {
			one.Child("allocatable").Child("count").Invalid(*d.Allocatable.Count, "must be greater than or equal to 0")
		}
		keys := unique{}
		for _, key := range d.TopologyKeys {
			at := one.Child("topologyKeys")
			keys.check(at, key)
			if key == "" {
				at.Required("")
			} else if why := meta.CheckQualifiedName(key); why != "" {
				at.Invalid(key, why)
			}
		}
	}
}

func checkCapacity(c *storagev1.CSIStorageCapacity, f *status.Fields) {
	if why := meta.CheckDNSSubdomain(c.StorageClassName); why != "" {
		f.At("storageClassName").Invalid(c.StorageClassName, why)
	}
	if q := c.Capacity; q != nil && q.Sign() < 0 {
		f.At("capacity").Invalid(q.String(), "must be greater than or equal to 0")
	}
	if q := c.MaximumVolumeSize; q != nil && q.Sign() < 0 {
		f.At("maximumVolumeSize").Invalid(q.String(), "must be greater than or equal to 0")
	}
	checkSelector(f.At("nodeTopology"), c.NodeTopology)
}

func checkAttributes(c *storagev1.VolumeAttributesClass, f *status.Fields) {
	checkProvisioner(c.DriverName, f.At("driverName"))
	checkParameters(c.Parameters, f.At("parameters"))
	if len(c.Parameters) == 0 {
		f.At("parameters").Required("must contain at least one key/value pair")
	}
}

func checkAttributesUpdate(c, old *storagev1.VolumeAttributesClass, f *status.Fields) {
	if c.DriverName != old.DriverName {
		f.At("driverName").Forbidden("updates to driverName are forbidden.")
	}
	if !maps.Equal(c.Parameters, old.Parameters) {
		f.At("parameters").Forbidden("updates to parameters are forbidden.")
	}
}
