package kube

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kindwright/kindwright/status"
)

// checkSecurity reports errors in the security contexts of a pod's containers.
func (c *cluster) checkSecurity(s *corev1.PodSpec, at status.Field) {
	hostUsers := s.HostUsers == nil || *s.HostUsers
	for name, all := range map[string][]corev1.Container{"containers": s.Containers, "initContainers": s.InitContainers} {
		for i := range all {
			if k := all[i].SecurityContext; k != nil {
				c.checkSecurityContext(k, at.Child(name).Index(i).Child("securityContext"), hostUsers)
			}
		}
	}
}

func (c *cluster) checkSecurityContext(s *corev1.SecurityContext, at status.Field, hostUsers bool) {
	privileged := s.Privileged != nil && *s.Privileged
	if privileged && c.Unprivileged {
		at.Child("privileged").Forbidden("disallowed by cluster policy")
	}
	if s.RunAsUser != nil {
		isID(at.Child("runAsUser"), *s.RunAsUser)
	}
	if s.RunAsGroup != nil {
		isID(at.Child("runAsGroup"), *s.RunAsGroup)
	}
	if s.ProcMount != nil && *s.ProcMount == corev1.UnmaskedProcMount && hostUsers {
		at.Child("procMount").Invalid(*s.ProcMount, "`hostUsers` must be false to use `Unmasked`")
	}
	if s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation {
		return
	}
	if privileged {
		at.Invalid(status.Omitted{}, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
	}
	if s.Capabilities != nil && slices.Contains(s.Capabilities.Add, "CAP_SYS_ADMIN") {
		at.Invalid(status.Omitted{}, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN")
	}
}

// isID reports a number that is no user or group of Unix.
func isID(at status.Field, id int64) {
	if id < 0 || id > 1<<31-1 {
		at.Invalid(id, "must be between 0 and 2147483647, inclusive")
	}
}
