package kube

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kindwright/kindwright/status"
)

// checkPodSecurity checks the security context of a pod as a whole.
func (r *podRules) checkPodSecurity(spec status.Field) {
	s, at := r.spec.SecurityContext, spec.Child("securityContext")
	if share := r.spec.ShareProcessNamespace; share != nil && *share && r.spec.HostPID {
		at.Child("shareProcessNamespace").Invalid(true, "ShareProcessNamespace and HostPID cannot both be enabled")
	}
	if s == nil {
		return
	}
	isID(at.Child("fsGroup"), s.FSGroup)
	isID(at.Child("runAsUser"), s.RunAsUser)
	isID(at.Child("runAsGroup"), s.RunAsGroup)
	for i := range s.SupplementalGroups {
		isID(at.Child("supplementalGroups").Index(i), &s.SupplementalGroups[i])
	}
	r.checkSysctls(s.Sysctls, at.Child("sysctls"))
	if p := s.FSGroupChangePolicy; p != nil {
		oneOf(at.Child("fsGroupChangePolicy"), *p, corev1.FSGroupChangeAlways, corev1.FSGroupChangeOnRootMismatch)
	}
	checkSeccomp(s.SeccompProfile, at.Child("seccompProfile"))
	checkWindowsOptions(s.WindowsOptions, at.Child("windowsOptions"))
	checkAppArmor(s.AppArmorProfile, at.Child("appArmorProfile"))
	if p := s.SupplementalGroupsPolicy; p != nil {
		oneOf(at.Child("supplementalGroupsPolicy"), *p, corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict)
	}
	if p := s.SELinuxChangePolicy; p != nil { // MountOption needs the gate SELinuxMount
		oneOf(at.Child("seLinuxChangePolicy"), *p, corev1.SELinuxChangePolicyRecursive)
	}
}

func (r *podRules) checkSecurityContext(s *corev1.SecurityContext, at status.Field) {
	if s == nil {
		return
	}
	privileged := s.Privileged != nil && *s.Privileged
	if privileged && r.Unprivileged {
		at.Child("privileged").Forbidden("disallowed by cluster policy")
	}
	isID(at.Child("runAsUser"), s.RunAsUser)
	isID(at.Child("runAsGroup"), s.RunAsGroup)
	if p := s.ProcMount; p != nil {
		oneOf(at.Child("procMount"), *p, corev1.DefaultProcMount, corev1.UnmaskedProcMount)
		if *p == corev1.UnmaskedProcMount && (r.spec.HostUsers == nil || *r.spec.HostUsers) {
			at.Child("procMount").Invalid(*p, "`hostUsers` must be false to use `Unmasked`")
		}
	}
	checkSeccomp(s.SeccompProfile, at.Child("seccompProfile"))
	if s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation {
		if privileged {
			at.Invalid(status.Omitted{}, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
		}
		if s.Capabilities != nil && slices.Contains(s.Capabilities.Add, "CAP_SYS_ADMIN") {
			at.Invalid(status.Omitted{}, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN")
		}
	}
	checkWindowsOptions(s.WindowsOptions, at.Child("windowsOptions"))
	checkAppArmor(s.AppArmorProfile, at.Child("appArmorProfile"))
}

// isID reports a number that is no user or group of Unix.
func isID(at status.Field, id *int64) {
	if id != nil && (*id < 0 || *id > 1<<31-1) {
		at.Invalid(*id, "must be between 0 and 2147483647, inclusive")
	}
}

// checkSeccomp checks which system calls may be made.
func checkSeccomp(p *corev1.SeccompProfile, at status.Field) {
	if p == nil {
		return
	}
	choice(at.Child("type"), p.Type, corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault,
		corev1.SeccompProfileTypeUnconfined)
	file := at.Child("localhostProfile")
	switch local := p.Type == corev1.SeccompProfileTypeLocalhost; {
	case local && p.LocalhostProfile == nil:
		file.Required("must be set when seccomp type is Localhost")
	case local:
		isPath(file, *p.LocalhostProfile)
	case p.LocalhostProfile != nil:
		file.Invalid(*p.LocalhostProfile, "can only be set when seccomp type is Localhost")
	}
}

// mostProfile is how long the name of a profile of AppArmor is: that of a path.
const mostProfile = 4095

// checkAppArmor checks which profile of AppArmor counts.
func checkAppArmor(p *corev1.AppArmorProfile, at status.Field) {
	if p == nil {
		return
	}
	choice(at.Child("type"), p.Type, corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault,
		corev1.AppArmorProfileTypeUnconfined)
	file := at.Child("localhostProfile")
	switch {
	case p.Type == corev1.AppArmorProfileTypeLocalhost && (p.LocalhostProfile == nil || *p.LocalhostProfile == ""):
		file.Required("must be set when AppArmor type is Localhost")
	case p.Type == corev1.AppArmorProfileTypeLocalhost:
		if *p.LocalhostProfile != strings.TrimSpace(*p.LocalhostProfile) {
			file.Invalid(*p.LocalhostProfile, "must not be padded with whitespace")
		}
		if len(*p.LocalhostProfile) > mostProfile {
			file.TooLong(mostProfile)
		}
	case p.LocalhostProfile != nil && (p.Type == corev1.AppArmorProfileTypeRuntimeDefault || p.Type == corev1.AppArmorProfileTypeUnconfined):
		file.Invalid(*p.LocalhostProfile, "can only be set when AppArmor type is Localhost")
	}
}

// sysctls are the names of settings of the kernel.
var sysctls = regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`)

const mostSysctl = 253

// checkSysctls checks the settings of the kernel for a pod. Those of a namespace that it shares with its node would
// change the node.
func (r *podRules) checkSysctls(all []corev1.Sysctl, at status.Field) {
	names := map[string]bool{}
	for i, s := range all {
		one := at.Index(i).Child("name")
		switch {
		case s.Name == "":
			one.Required("")
		case len(s.Name) > mostSysctl || !sysctls.MatchString(s.Name):
			one.Invalid(s.Name, "must have at most 253 characters and match regex "+sysctls.String())
		case names[s.Name]:
			one.Duplicate(s.Name)
		}
		names[s.Name] = true
		name := dotted(s.Name)
		below := func(prefixes ...string) bool {
			return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
		}
		switch {
		case r.spec.HostNetwork && below("net."):
			one.Invalid(s.Name, "may not be specified when 'hostNetwork' is true")
		case r.spec.HostIPC && (below("kernel.shm", "kernel.msg", "fs.mqueue.") || name == "kernel.sem"):
			one.Invalid(s.Name, "may not be specified when 'hostIPC' is true")
		}
	}
}

// dotted returns the name of a setting with dots between its parts. It may have slashes there instead, and then
// dots within the parts.
func dotted(name string) string {
	if i := strings.IndexAny(name, "./"); i < 0 || name[i] == '.' {
		return name
	}
	return strings.NewReplacer(".", "/", "/", ".").Replace(name)
}

// checkHostUsers checks a pod whose users are not those of its node.
func (r *podRules) checkHostUsers(at status.Field) {
	if r.spec.HostUsers == nil || *r.spec.HostUsers {
		return
	}
	forbid := func(at status.Field, has bool) {
		if has {
			at.Forbidden("when `hostUsers` is false")
		}
	}
	forbid(at.Child("hostNetwork"), r.spec.HostNetwork)
	forbid(at.Child("HostPID"), r.spec.HostPID) // as kube-apiserver spells them
	forbid(at.Child("HostIPC"), r.spec.HostIPC)
	eachContainer(r.spec, at, func(c *corev1.Container, at status.Field) {
		forbid(at.Child("volumeDevices"), len(c.VolumeDevices) > 0)
	})
}
