package kube

import (
	"path"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kindwright/kindwright/status"
)

func checkVolumeObject(v *corev1.PersistentVolume, f *status.Fields) {
	s, spec := &v.Spec, f.At("spec")
	checkModes(s.AccessModes, spec.Child("accessModes"), "")
	checkVolumeCapacity(s.Capacity, spec.Child("capacity"))
	if p := s.PersistentVolumeReclaimPolicy; p != "" {
		oneOf(spec.Child("persistentVolumeReclaimPolicy"), p,
			corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain)
	}
	switch a := s.NodeAffinity; {
	case a == nil:
	case a.Required == nil:
		spec.Child("nodeAffinity").Child("required").Required("must specify required node constraints")
	default:
		checkNodeSelector(a.Required, spec.Child("nodeAffinity").Child("required"))
	}
	checkVolumeSources(s, v.Name, spec, s.NodeAffinity != nil)
	if s.StorageClassName != "" {
		isSubdomain(spec.Child("storageClassName"), s.StorageClassName)
	}
	if m := s.VolumeMode; m != nil {
		oneOf(spec.Child("volumeMode"), *m, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
	}
	if class := s.VolumeAttributesClassName; class != nil {
		if at := spec.Child("volumeAttributesClassName"); *class == "" {
			at.Required("an empty string is disallowed")
		} else {
			isSubdomain(at, *class)
		}
		if s.CSI == nil {
			spec.Child("csi").Required("has to be specified when using volumeAttributesClassName")
		}
	}
	if _, has := v.Annotations[corev1.MountOptionAnnotation]; has && !takesMountOptions(&s.PersistentVolumeSource) {
		f.At("metadata", "annotations", corev1.MountOptionAnnotation).Forbidden("may not specify mount options for this volume type")
	}
}

// takesMountOptions reports whether a volume takes options from an annotation.
func takesMountOptions(s *corev1.PersistentVolumeSource) bool {
	return s.GCEPersistentDisk != nil || s.AWSElasticBlockStore != nil || s.Glusterfs != nil || s.NFS != nil || s.RBD != nil ||
		s.Quobyte != nil || s.ISCSI != nil || s.Cinder != nil || s.CephFS != nil || s.AzureFile != nil || s.VsphereVolume != nil ||
		s.AzureDisk != nil || s.PhotonPersistentDisk != nil
}

func checkVolumeCapacity(all corev1.ResourceList, at status.Field) {
	if len(all) == 0 {
		at.Required("")
	}
	if _, has := all[corev1.ResourceStorage]; !has || len(all) > 1 {
		at.NotSupported(all, string(corev1.ResourceStorage))
	}
	for _, name := range amountNames(all) {
		if q := all[name]; q.Sign() <= 0 {
			at.Key(string(name)).Invalid(q.String(), "must be greater than zero")
		}
	}
}

// checkInlineVolume checks a volume that an attachment brings along. What concerns claims and nodes has no meaning there.
func checkInlineVolume(s *corev1.PersistentVolumeSpec, spec status.Field) {
	for _, field := range []struct {
		name string
		has  bool
	}{
		{"claimRef", s.ClaimRef != nil},
		{"capacity", len(s.Capacity) > 0},
		{"nodeAffinity", s.NodeAffinity != nil},
		{"storageClassName", s.StorageClassName != ""},
	} {
		if field.has {
			spec.Child(field.name).Forbidden("may not be specified in the context of inline volumes")
		}
	}
	if s.CSI == nil {
		spec.Child("csi").Required("has to be specified in the context of inline volumes")
	}
	checkModes(s.AccessModes, spec.Child("accessModes"), "")
	if p := s.PersistentVolumeReclaimPolicy; p != "" && p != corev1.PersistentVolumeReclaimRetain {
		spec.Child("persistentVolumeReclaimPolicy").Forbidden("may only be Retain in the context of inline volumes")
	}
	checkVolumeSources(s, "", spec, false)
	if m := s.VolumeMode; m != nil && *m != corev1.PersistentVolumeFilesystem {
		spec.Child("volumeMode").Forbidden("may not specify volumeMode other than Filesystem in the context of inline volumes")
	}
}

// volumeSourceOrder are the sources of volumes in the order in which kube-apiserver looks at them.
func volumeSourceOrder() []string {
	return []string{
		"hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd", "quobyte", "cephfs", "iscsi", "cinder", "fc",
		"flexVolume", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk", "scaleIO", "local", "storageos", "csi",
	}
}

// checkVolumeSources checks the first source of a volume and reports all others. One of flexVolume is never too many.
func checkVolumeSources(s *corev1.PersistentVolumeSpec, volume string, at status.Field, placed bool) {
	sources, all := map[string]reflect.Value{}, reflect.ValueOf(s.PersistentVolumeSource)
	for i := range all.NumField() {
		if !all.Field(i).IsNil() {
			sources[jsonName(all.Type().Field(i))] = all.Field(i)
		}
	}
	found := false
	for _, name := range volumeSourceOrder() {
		source, has := sources[name]
		switch {
		case !has:
		case found && name != "flexVolume":
			if name == "cephfs" {
				name = "cephFS" // as kube-apiserver spells it
			}
			at.Child(name).Forbidden("may not specify more than 1 volume type")
		default:
			found = true
			checkSourceFields(source.Elem(), name, sourceAt(at, name))
			checkVolumeSource(source.Interface(), volume, sourceAt(at, name))
			if name == "local" && !placed {
				at.Child("nodeAffinity").Required("Local volume requires node affinity")
			}
		}
	}
	if !found {
		at.Required("must specify a volume type")
	}
	if p := s.HostPath; p != nil && path.Clean(p.Path) == "/" && s.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		at.Child("persistentVolumeReclaimPolicy").Forbidden("may not be 'recycle' for a hostPath mount of '/'")
	}
}

// checkVolumeSource checks what a source says, beside that it has the fields that it must have.
func checkVolumeSource(source any, volume string, at status.Field) {
	switch s := source.(type) {
	case *corev1.HostPathVolumeSource:
		checkHostPath(s, at)
		if t := s.Type; s.Path != "" && t != nil && *t != corev1.HostPathUnset {
			oneOf(at.Child("type"), *t, corev1.HostPathBlockDev, corev1.HostPathCharDev, corev1.HostPathDirectory,
				corev1.HostPathDirectoryOrCreate, corev1.HostPathFile, corev1.HostPathFileOrCreate, corev1.HostPathSocket)
		}
	case *corev1.GCEPersistentDiskVolumeSource:
		checkPartition(s.Partition, at.Child("partition"))
	case *corev1.AWSElasticBlockStoreVolumeSource:
		checkPartition(s.Partition, at.Child("partition"))
	case *corev1.GlusterfsPersistentVolumeSource:
		checkEndpointsNamespace(s.EndpointsNamespace, at.Child("endpointsNamespace"))
	case *corev1.FlockerVolumeSource:
		checkFlocker(s, at)
	case *corev1.NFSVolumeSource:
		checkNFS(s, at)
	case *corev1.QuobyteVolumeSource:
		checkQuobyte(s, at)
	case *corev1.ISCSIPersistentVolumeSource:
		checkISCSIVolume(s, volume, at)
	case *corev1.CinderPersistentVolumeSource:
		if r := s.SecretRef; r != nil {
			checkNamed(r.Name, r.Namespace, at.Child("secretRef"))
		}
	case *corev1.FCVolumeSource:
		checkFibreChannel(s, at)
	case *corev1.FlexPersistentVolumeSource:
		checkFlexOptions(s.Options, at.Child("options"))
	case *corev1.AzureFilePersistentVolumeSource:
		if s.SecretNamespace != nil && *s.SecretNamespace == "" {
			at.Child("secretNamespace").Required("")
		}
	case *corev1.AzureDiskVolumeSource:
		if m := s.CachingMode; m != nil {
			oneOf(at.Child("cachingMode"), *m, corev1.AzureDataDiskCachingNone, corev1.AzureDataDiskCachingReadOnly, corev1.AzureDataDiskCachingReadWrite)
		}
		checkAzureDisk(s, at)
	case *corev1.LocalVolumeSource:
		if s.Path == "" {
			at.Child("path").Required("")
		}
		noWayUp(at.Child("path"), s.Path)
	case *corev1.StorageOSPersistentVolumeSource:
		checkStorageOS(s.VolumeName, s.VolumeNamespace, at)
		if r := s.SecretRef; r != nil {
			checkNamed(r.Name, r.Namespace, at.Child("secretRef"))
		}
	case *corev1.CSIPersistentVolumeSource:
		checkCSIVolume(s, at)
	}
}

func checkEndpointsNamespace(name *string, at status.Field) {
	switch {
	case name == nil:
	case *name == "":
		at.Invalid(*name, "if the endpointnamespace is set, it must be a valid namespace name")
	default:
		isLabel(at, *name)
	}
}

// checkNamed checks that a reference to a secret has a name and a namespace.
func checkNamed(name, namespace string, at status.Field) {
	if name == "" {
		at.Child("name").Required("")
	}
	if namespace == "" {
		at.Child("namespace").Required("")
	}
}

func checkISCSIVolume(s *corev1.ISCSIPersistentVolumeSource, volume string, at status.Field) {
	checkISCSI(s.TargetPortal, s.IQN, s.Lun, at)
	checkInitiator(s.InitiatorName, at.Child("initiatorname"))
	if s.InitiatorName != nil && len(volume)+len(":")+len(s.TargetPortal) > 64 {
		at.Child("targetportal").Invalid(s.TargetPortal, "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters "+
			"if iscsi.initiatorName is specified.")
	}
	switch r := s.SecretRef; {
	case r == nil && (s.DiscoveryCHAPAuth || s.SessionCHAPAuth):
		at.Child("secretRef").Required("")
	case r != nil && r.Name == "":
		at.Child("secretRef").Child("name").Required("")
	}
}

// checkCSIVolume checks a volume of a driver. The secret of staging is not looked at, as in kube-apiserver.
func checkCSIVolume(s *corev1.CSIPersistentVolumeSource, at status.Field) {
	checkDriver(at.Child("driver"), s.Driver)
	if s.VolumeHandle == "" {
		at.Child("volumeHandle").Required("")
	}
	secret := func(r *corev1.SecretReference, one status.Field) {
		if r != nil {
			isSubdomain(one.Child("name"), r.Name)
			isLabel(one.Child("namespace"), r.Namespace)
		}
	}
	secret(s.ControllerPublishSecretRef, at.Child("controllerPublishSecretRef"))
	secret(s.ControllerExpandSecretRef, at.Child("controllerExpandSecretRef"))
	secret(s.NodePublishSecretRef, at.Child("nodePublishSecretRef"))
	secret(s.NodeExpandSecretRef, at.Child("nodeExpandSecretRef"))
}

// checkVolumeObjectUpdate keeps what a volume is, and where. A secret for growing may be named later.
func (c *cluster) checkVolumeObjectUpdate(v, old *corev1.PersistentVolume, f *status.Fields) {
	now, before := v.Spec.PersistentVolumeSource, old.Spec.PersistentVolumeSource
	if now.CSI != nil && before.CSI != nil && before.CSI.ControllerExpandSecretRef == nil {
		csi := *now.CSI
		csi.ControllerExpandSecretRef = nil
		now.CSI = &csi
	}
	if !equality.Semantic.DeepEqual(now, before) {
		f.At("spec", "persistentvolumesource").Forbidden("spec.persistentvolumesource is immutable after creation")
	}
	same(f.At("volumeMode"), equality.Semantic.DeepEqual(v.Spec.VolumeMode, old.Spec.VolumeMode), v.Spec.VolumeMode)
	if was, is := old.Spec.NodeAffinity, v.Spec.NodeAffinity; was != nil && !c.has(gateMutableLocations) &&
		!equality.Semantic.DeepEqual(is, relabelled(was, is)) {
		f.At("nodeAffinity").Invalid(is, "field is immutable, except for updating from beta label to GA")
	}
	if old.Spec.VolumeAttributesClassName != nil && v.Spec.VolumeAttributesClassName == nil {
		f.At("spec", "volumeAttributesClassName").Forbidden("update from non-nil value to nil is forbidden")
	}
}

// relabelled returns where a volume was, by the new names of labels where now has them.
func relabelled(was, now *corev1.VolumeNodeAffinity) *corev1.VolumeNodeAffinity {
	if was.Required == nil || now == nil || now.Required == nil {
		return was
	}
	names := map[string]string{
		corev1.LabelFailureDomainBetaZone: corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
		"beta.kubernetes.io/os": corev1.LabelOSStable, "beta.kubernetes.io/arch": corev1.LabelArchStable,
		corev1.LabelInstanceType: corev1.LabelInstanceTypeStable,
	}
	rename := func(was, now []corev1.NodeSelectorRequirement) {
		for i := range min(len(was), len(now)) {
			if key := names[was[i].Key]; key != "" && key == now[i].Key {
				was[i].Key = key
			}
		}
	}
	out := was.DeepCopy()
	for i := range min(len(out.Required.NodeSelectorTerms), len(now.Required.NodeSelectorTerms)) {
		before, after := &out.Required.NodeSelectorTerms[i], &now.Required.NodeSelectorTerms[i]
		rename(before.MatchExpressions, after.MatchExpressions)
		rename(before.MatchFields, after.MatchFields)
	}
	return out
}
