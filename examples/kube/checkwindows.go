package kube

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// checkSystem checks that a pod has nothing that its operating system lacks.
func (r *podRules) checkSystem(at status.Field) {
	os := r.spec.OS
	switch {
	case os == nil:
	case os.Name == "":
		at.Child("os").Child("name").Required("")
	case os.Name == corev1.Linux:
		if s := r.spec.SecurityContext; s != nil && s.WindowsOptions != nil {
			at.Child("securityContext").Child("windowsOptions").Forbidden("windows options cannot be set for a linux pod")
		}
		eachContainer(r.spec, at, func(c *corev1.Container, at status.Field) {
			if c.SecurityContext != nil && c.SecurityContext.WindowsOptions != nil {
				at.Child("securityContext").Child("windowsOptions").Forbidden("windows options cannot be set for a linux pod")
			}
		})
	case os.Name == corev1.Windows:
		r.checkWindows(at)
	default:
		oneOf(at.Child("os"), os.Name, corev1.Linux, corev1.Windows)
	}
}

// checkWindows reports what there is on Linux alone.
func (r *podRules) checkWindows(at status.Field) {
	forbid := func(at status.Field, has bool) {
		if has {
			at.Forbidden("cannot be set for a windows pod")
		}
	}
	forbid(at.Child("hostUsers"), r.spec.HostUsers != nil)
	forbid(at.Child("hostPID"), r.spec.HostPID)
	forbid(at.Child("hostIPC"), r.spec.HostIPC)
	forbid(at.Child("shareProcessNamespace"), r.spec.ShareProcessNamespace != nil)
	if s := r.spec.SecurityContext; s != nil {
		at := at.Child("securityContext")
		forbid(at.Child("appArmorProfile"), s.AppArmorProfile != nil)
		forbid(at.Child("seLinuxOptions"), s.SELinuxOptions != nil)
		forbid(at.Child("seccompProfile"), s.SeccompProfile != nil)
		forbid(at.Child("fsGroup"), s.FSGroup != nil)
		forbid(at.Child("fsGroupChangePolicy"), s.FSGroupChangePolicy != nil)
		forbid(at.Child("sysctls"), len(s.Sysctls) > 0)
		forbid(at.Child("runAsUser"), s.RunAsUser != nil)
		forbid(at.Child("runAsGroup"), s.RunAsGroup != nil)
		forbid(at.Child("supplementalGroups"), s.SupplementalGroups != nil)
		forbid(at.Child("supplementalGroupsPolicy"), s.SupplementalGroupsPolicy != nil)
		forbid(at.Child("seLinuxChangePolicy"), s.SELinuxChangePolicy != nil)
	}
	eachContainer(r.spec, at, func(c *corev1.Container, at status.Field) {
		s, at := c.SecurityContext, at.Child("securityContext")
		if s == nil {
			return
		}
		forbid(at.Child("appArmorProfile"), s.AppArmorProfile != nil)
		forbid(at.Child("seLinuxOptions"), s.SELinuxOptions != nil)
		forbid(at.Child("seccompProfile"), s.SeccompProfile != nil)
		forbid(at.Child("capabilities"), s.Capabilities != nil)
		forbid(at.Child("readOnlyRootFilesystem"), s.ReadOnlyRootFilesystem != nil)
		forbid(at.Child("privileged"), s.Privileged != nil)
		forbid(at.Child("allowPrivilegeEscalation"), s.AllowPrivilegeEscalation != nil)
		forbid(at.Child("procMount"), s.ProcMount != nil)
		forbid(at.Child("runAsUser"), s.RunAsUser != nil)
		forbid(at.Child("runAsGroup"), s.RunAsGroup != nil)
	})
}

// checkHostProcess checks containers of Windows that run as processes of their node: either all of a pod, or none.
func (r *podRules) checkHostProcess(at status.Field) {
	var pod *bool
	if s := r.spec.SecurityContext; s != nil && s.WindowsOptions != nil {
		pod = s.WindowsOptions.HostProcess
	}
	all, onHost := 0, 0
	eachContainer(r.spec, at, func(c *corev1.Container, at status.Field) {
		own := pod
		if s := c.SecurityContext; s != nil && s.WindowsOptions != nil && s.WindowsOptions.HostProcess != nil {
			own = s.WindowsOptions.HostProcess
			if pod != nil && *pod != *own {
				at.Child("securityContext").Child("windowsOptions").Child("hostProcess").Invalid(*own, "must be that of the pod, which has one")
			}
		}
		if all++; own != nil && *own {
			onHost++
		}
	})
	if onHost == 0 {
		return
	}
	if onHost != all {
		at.Invalid("", "if one container is a hostProcess container, all are")
	}
	if !r.spec.HostNetwork {
		at.Child("hostNetwork").Invalid(false, "must be true for hostProcess containers")
	}
	if r.Unprivileged {
		at.Forbidden("hostProcess containers are disallowed by cluster policy")
	}
}

var (
	controls    = regexp.MustCompile(`[[:cntrl:]]`)
	netBIOS     = regexp.MustCompile(`^[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}$`)
	domains     = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$`)
	noUserChars = regexp.MustCompile(`["/\\:;|=,+*?<>@\[\]]`)
)

// How long the texts of Windows are.
const (
	mostCredentials = 64 << 10
	mostDomain      = 255
	mostUser        = 104
)

// checkWindowsOptions checks as whom a container of Windows runs.
func checkWindowsOptions(o *corev1.WindowsSecurityContextOptions, at status.Field) {
	if o == nil {
		return
	}
	if name := o.GMSACredentialSpecName; name != nil {
		if why := meta.CheckDNSSubdomain(*name); why != "" {
			at.Child("gmsaCredentialSpecName").Invalid(*name, why)
		}
	}
	if spec := o.GMSACredentialSpec; spec != nil {
		switch at := at.Child("gmsaCredentialSpec"); {
		case *spec == "":
			at.Invalid(*spec, "cannot be an empty string")
		case len(*spec) > mostCredentials:
			at.Invalid(status.Omitted{}, "must be under 64 KiB")
		}
	}
	if o.RunAsUserName != nil {
		checkWindowsUser(*o.RunAsUserName, at.Child("runAsUserName"))
	}
}

func checkWindowsUser(name string, at status.Field) {
	domain, user, hasDomain := strings.Cut(name, `\`)
	if !hasDomain {
		user = name
	}
	for _, rule := range []struct {
		broken bool
		why    string
	}{
		{name == "", "cannot be an empty string"},
		{controls.MatchString(name), "cannot contain control characters"},
		{strings.Count(name, `\`) > 1, "cannot contain more than one backslash"},
		{hasDomain && len(domain) > mostDomain, "must have a domain of less than 256 characters"},
		{hasDomain && !netBIOS.MatchString(domain) && !domains.MatchString(domain), "must have a domain of the form of NetBIOS or DNS"},
		{user == "", "must have a user"},
		{len(user) > mostUser, "must have a user of no more than 104 characters"},
		{user != "" && strings.Trim(user, ". ") == "", "must not have a user of periods or spaces only"},
		{noUserChars.MatchString(user), `must not have a user with one of the characters "/\:;|=,+*?<>@[]`},
	} {
		if rule.broken {
			at.Invalid(name, rule.why)
			return
		}
	}
}
