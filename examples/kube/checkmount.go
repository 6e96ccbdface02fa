package kube

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kindwright/kindwright/status"
)

// checkMounts checks which volumes a container sees, and where. kube-apiserver names no index for what it says of
// paths within volumes and of propagation.
func (r *podRules) checkMounts(k *corev1.Container, at status.Field) {
	paths, devices := map[string]bool{}, map[string]string{}
	for _, d := range k.VolumeDevices {
		devices[d.Name] = d.DevicePath
	}
	taken := setOf(slices.Collect(maps.Values(devices)))
	privileged := k.SecurityContext != nil && k.SecurityContext.Privileged != nil && *k.SecurityContext.Privileged
	for i, m := range k.VolumeMounts {
		one := at.Index(i)
		if m.Name == "" {
			one.Child("name").Required("")
		}
		if r.volumes[m.Name] == nil {
			one.Child("name").NotFound(m.Name)
		}
		if m.MountPath == "" {
			one.Child("mountPath").Required("")
		}
		if paths[m.MountPath] {
			one.Child("mountPath").Invalid(m.MountPath, "must be unique")
		}
		paths[m.MountPath] = true
		checkNotIn(m.Name, m.MountPath, devices, taken, one, "mountPath", "volumeDevices")
		if m.SubPath != "" {
			isPath(at.Child("subPath"), m.SubPath)
		}
		if m.SubPathExpr != "" {
			if m.SubPath != "" {
				one.Child("subPathExpr").Invalid(m.SubPathExpr, "subPathExpr and subPath are mutually exclusive")
			}
			isPath(at.Child("subPathExpr"), m.SubPathExpr)
		}
		if p := m.MountPropagation; p != nil {
			oneOf(at.Child("mountPropagation"), *p, corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer,
				corev1.MountPropagationNone)
			if *p == corev1.MountPropagationBidirectional && !privileged {
				at.Child("mountPropagation").Forbidden("mounts propagate to the node from privileged containers only")
			}
		}
		checkReadOnly(&m, at.Child("recursiveReadOnly"))
	}
}

// checkReadOnly checks whether the mounts below a mount are read-only too.
func checkReadOnly(m *corev1.VolumeMount, at status.Field) {
	if m.RecursiveReadOnly == nil {
		return
	}
	oneOf(at, *m.RecursiveReadOnly, corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible)
	switch *m.RecursiveReadOnly {
	case corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible:
		if !m.ReadOnly {
			at.Forbidden("may only be specified when readOnly is true")
		}
		if m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone {
			at.Forbidden("may only be specified when mountPropagation is None or not specified")
		}
	}
}

// checkNotIn reports a volume that a container has both as files and as a device, and a path that is used by both.
func checkNotIn(name, where string, others map[string]string, taken map[string]bool, at status.Field, path, list string) {
	if _, has := others[name]; has {
		at.Child("name").Invalid(name, "must not already exist in "+list)
	}
	if taken[where] {
		at.Child(path).Invalid(where, "must not already exist as a path in "+list)
	}
}

// checkDevices checks which volumes a container sees as block devices.
func (r *podRules) checkDevices(k *corev1.Container, at status.Field) {
	names, paths, mounts := map[string]bool{}, map[string]bool{}, map[string]string{}
	for _, m := range k.VolumeMounts {
		mounts[m.Name] = m.MountPath
	}
	taken := setOf(slices.Collect(maps.Values(mounts)))
	for i, d := range k.VolumeDevices {
		one := at.Index(i)
		if d.Name == "" {
			one.Child("name").Required("")
		}
		if names[d.Name] {
			one.Child("name").Invalid(d.Name, "must be unique")
		}
		names[d.Name] = d.Name != ""
		switch v := r.volumes[d.Name]; {
		case v == nil:
			one.Child("name").NotFound(d.Name)
		case v.PersistentVolumeClaim == nil && v.Ephemeral == nil:
			one.Child("name").Invalid(d.Name, "only volumes of type persistentVolumeClaim and ephemeral can be block devices")
		}
		if d.DevicePath == "" {
			one.Child("devicePath").Required("")
		}
		if paths[d.DevicePath] {
			one.Child("devicePath").Invalid(d.DevicePath, "must be unique")
		}
		paths[d.DevicePath] = true
		noWayUp(one.Child("devicePath"), d.DevicePath)
		checkNotIn(d.Name, d.DevicePath, mounts, taken, one, "devicePath", "volumeMounts")
	}
}
