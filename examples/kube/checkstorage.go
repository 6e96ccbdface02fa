package kube

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// checkProvisioner checks the name of what makes volumes, which need not be a driver of CSI.
func checkProvisioner(name string, at status.Field) {
	if name == "" {
		at.Required("")
	} else if why := meta.CheckQualifiedName(strings.ToLower(name)); why != "" {
		at.Invalid(name, why)
	}
}

// mostParameterBytes is how much the maker of volumes, or who attaches them, is told.
const mostParameterBytes = 256 << 10

// checkParameters checks what the maker of volumes is told.
func checkParameters(all map[string]string, at status.Field) {
	const maxCount = 512
	if len(all) > maxCount {
		at.TooLong(maxCount)
		return
	}
	if _, has := all[""]; has {
		at.Invalid("", "field can not be empty.")
	}
	if textSize(all) > mostParameterBytes {
		at.TooLong(mostParameterBytes)
	}
}

// textSize returns how many bytes names and values have.
func textSize(all map[string]string) (n int) {
	for name, value := range all {
		n += len(name) + len(value)
	}
	return n
}

func checkStorageClass(c *storagev1.StorageClass, f *status.Fields) {
	checkProvisioner(c.Provisioner, f.At("provisioner"))
	checkParameters(c.Parameters, f.At("parameters"))
	if p := c.ReclaimPolicy; p != nil && *p != "" {
		oneOf(f.At("reclaimPolicy"), *p, corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)
	}
	if c.VolumeBindingMode != nil {
		oneOf(f.At("volumeBindingMode"), *c.VolumeBindingMode, storagev1.VolumeBindingImmediate,
			storagev1.VolumeBindingWaitForFirstConsumer)
	}
	checkTopologies(c.AllowedTopologies, f.At("allowedTopologies"))
}

// checkTopologies checks where the volumes of a class may be. No two terms may say the same, and none may say nothing.
func checkTopologies(all []corev1.TopologySelectorTerm, at status.Field) {
	known := map[string]bool{fmt.Sprintf("%q", map[string][]string{}): true}
	for i, term := range all {
		one, said := at.Index(i).Child("matchLabelExpressions"), map[string][]string{}
		for j, e := range term.MatchLabelExpressions {
			values := unique{}
			if len(e.Values) == 0 {
				one.Index(j).Child("values").Required("")
			}
			for k, value := range e.Values {
				values.checkAny(one.Index(j).Child("values").Index(k), value)
			}
			if why := meta.CheckLabelKey(e.Key); why != "" {
				one.Index(j).Child("key").Invalid(e.Key, why)
			}
			if _, twice := said[e.Key]; twice {
				one.Index(j).Child("key").Duplicate(e.Key)
			}
			said[e.Key] = slices.Sorted(maps.Keys(values))
		}
		text := fmt.Sprintf("%q", said)
		if known[text] {
			one.Duplicate("")
		}
		known[text] = true
	}
}

func checkStorageClassUpdate(c, old *storagev1.StorageClass, f *status.Fields) {
	same(f.At("parameters"), maps.Equal(c.Parameters, old.Parameters), c.Parameters)
	same(f.At("provisioner"), c.Provisioner == old.Provisioner, c.Provisioner)
	same(f.At("reclaimPolicy"), equality.Semantic.DeepEqual(c.ReclaimPolicy, old.ReclaimPolicy), c.ReclaimPolicy)
	same(f.At("volumeBindingMode"), equality.Semantic.DeepEqual(c.VolumeBindingMode, old.VolumeBindingMode), c.VolumeBindingMode)
}

func checkAttachment(a *storagev1.VolumeAttachment, f *status.Fields) {
	spec := f.At("spec")
	checkDriver(spec.Child("attacher"), a.Spec.Attacher)
	source := spec.Child("source")
	name := a.Spec.Source.PersistentVolumeName
	switch inline := a.Spec.Source.InlineVolumeSpec; {
	case inline == nil && name == nil:
		source.Required("must specify exactly one of inlineVolumeSpec and persistentVolumeName")
	case inline != nil && name != nil:
		source.Forbidden("must specify exactly one of inlineVolumeSpec and persistentVolumeName")
	case inline != nil:
		checkInlineVolume(inline, source.Child("inlineVolumeSpec"))
	case *name == "":
		source.Child("persistentVolumeName").Required("must specify non empty persistentVolumeName")
	}
	if name != nil {
		if why := meta.CheckDNSSubdomain(*name); why != "" {
			source.Child("persistentVolumeName").Invalid(*name, why)
		}
	}
	if why := meta.CheckDNSSubdomain(a.Spec.NodeName); why != "" {
		spec.Child("nodeName").Invalid(a.Spec.NodeName, why)
	}
	if textSize(a.Status.AttachmentMetadata) > mostParameterBytes {
		f.At("status", "attachmentMetadata").TooLong(mostParameterBytes)
	}
	checkAttachmentError(a.Status.AttachError, f.At("status", "attachError"))
	checkAttachmentError(a.Status.DetachError, f.At("status", "detachError"))
}

func checkAttachmentError(e *storagev1.VolumeError, at status.Field) {
	const maxBytes = 1024
	if e == nil {
		return
	}
	if len(e.Message) > maxBytes {
		at.Child("message").TooLong(maxBytes)
	}
	if e.ErrorCode != nil && *e.ErrorCode < 0 {
		at.Child("errorCode").Invalid(*e.ErrorCode, "must be between 0 and 2147483647, inclusive")
	}
}

func checkAttachmentUpdate(a, old *storagev1.VolumeAttachment, f *status.Fields) {
	same(f.At("spec"), equality.Semantic.DeepEqual(a.Spec, old.Spec), a.Spec)
}

// checkCSIDriver checks how a cluster deals with the volumes of a driver.
func checkCSIDriver(d *storagev1.CSIDriver, f *status.Fields) {
	spec := f.At("spec")
	if p := d.Spec.FSGroupPolicy; p != nil {
		oneOf(spec.Child("fsGroupPolicy"), *p, storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	}
	for _, mode := range d.Spec.VolumeLifecycleModes {
		oneOf(spec.Child("volumeLifecycleModes"), mode, storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral)
	}
	audiences := unique{}
	for i, r := range d.Spec.TokenRequests {
		one := spec.Child("tokenRequests").Index(i)
		if audiences.checkAny(one.Child("audience"), r.Audience) {
			checkTokenExpiration(r.ExpirationSeconds, one.Child("expirationSeconds"))
		}
	}
	if n := d.Spec.NodeAllocatableUpdatePeriodSeconds; n != nil && *n < 10 {
		spec.Child("nodeAllocatableUpdatePeriodSeconds").Invalid(*n, "must be greater than or equal to 10 seconds")
	}
	if s := d.Spec.ServiceAccountTokenInSecrets; s != nil && len(d.Spec.TokenRequests) == 0 {
		spec.Child("serviceAccountTokenInSecrets").Invalid(*s, "serviceAccountTokenInSecrets is set but no tokenRequests are specified")
	}
}

// checkTokenExpiration checks how long the token of a service account is valid.
func checkTokenExpiration(seconds *int64, at status.Field) {
	switch {
	case seconds == nil:
	case *seconds < 600:
		at.Invalid(*seconds, "may not specify a duration less than 10 minutes")
	case *seconds > 1<<32:
		at.Invalid(*seconds, "may not specify a duration larger than 2^32 seconds")
	}
}

func checkCSIDriverUpdate(d, old *storagev1.CSIDriver, f *status.Fields) {
	attached := f.At("spec", "attachedRequired") // as kube-apiserver names it
	same(attached, equality.Semantic.DeepEqual(d.Spec.AttachRequired, old.Spec.AttachRequired), d.Spec.AttachRequired)
	same(f.At("spec", "volumeLifecycleModes"), equality.Semantic.DeepEqual(d.Spec.VolumeLifecycleModes, old.Spec.VolumeLifecycleModes),
		d.Spec.VolumeLifecycleModes)
}

// checkDriverNode checks the drivers of a node. kube-apiserver does not say where a key is wrong.
func checkDriverNode(n *storagev1.CSINode, f *status.Fields) {
	const maxID = 256
	names := unique{}
	for i, d := range n.Spec.Drivers {
		one := f.At("spec", "drivers").Index(i)
		checkDriver(one.Child("name"), d.Name)
		names.checkAny(one.Child("name"), d.Name)
		switch id := one.Child("nodeID"); {
		case d.NodeID == "":
			id.Required("")
		case len(d.NodeID) > maxID:
			id.Invalid(d.NodeID, fmt.Sprintf("must be %d characters or less", maxID))
		}
		if d.Allocatable != nil {
			notNegative(one.Child("allocatable").Child("count"), d.Allocatable.Count)
		}
		keys := unique{}
		for _, key := range d.TopologyKeys {
			keys.checkAny(one, key)
			if key == "" {
				one.Required("")
			}
			if why := meta.CheckQualifiedName(key); why != "" {
				one.Invalid(key, why)
			}
		}
	}
}

// checkDriverNodeUpdate keeps what is said of a driver, except for how many volumes it attaches.
func checkDriverNodeUpdate(n, old *storagev1.CSINode, f *status.Fields) {
	before := map[string]storagev1.CSINodeDriver{}
	for _, d := range old.Spec.Drivers {
		before[d.Name] = d
	}
	for _, d := range n.Spec.Drivers {
		was, has := before[d.Name]
		d.Allocatable = was.Allocatable
		same(f.At("spec", "drivers"), !has || equality.Semantic.DeepEqual(d, was), d)
	}
}

func checkCapacity(c *storagev1.CSIStorageCapacity, f *status.Fields) {
	if why := meta.CheckDNSSubdomain(c.StorageClassName); why != "" {
		f.At("storageClassName").Invalid(c.StorageClassName, why)
	}
	if q := c.Capacity; q != nil && q.Sign() < 0 {
		f.At("capacity").Invalid(q.String(), "must be greater than or equal to 0")
	}
	checkSelector(f.At("nodeTopology"), c.NodeTopology)
}

func checkCapacityUpdate(c, old *storagev1.CSIStorageCapacity, f *status.Fields) {
	same(f.At("nodeTopology"), equality.Semantic.DeepEqual(c.NodeTopology, old.NodeTopology), c.NodeTopology)
	same(f.At("storageClassName"), c.StorageClassName == old.StorageClassName, c.StorageClassName)
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
