package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	config "k8s.io/pod-security-admission/admission/api"
	"k8s.io/pod-security-admission/admission/api/load"
	"k8s.io/pod-security-admission/admission/api/validation"
	"k8s.io/pod-security-admission/api"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/registry"
)

// podSecurityConfiguration returns what applies where labels say nothing, and who is exempt. Nil stands
// for the default: everything is allowed, and nobody is exempt.
func podSecurityConfiguration(given *config.PodSecurityConfiguration) (api.Policy, config.PodSecurityExemptions, error) {
	if given == nil {
		defaults, err := load.LoadFromData(nil)
		if err != nil {
			return api.Policy{}, config.PodSecurityExemptions{}, fmt.Errorf("%s: %w", podSecurityName, err)
		}
		given = defaults
	}
	if err := validation.ValidatePodSecurityConfiguration(given).ToAggregate(); err != nil {
		return api.Policy{}, config.PodSecurityExemptions{}, fmt.Errorf("%s: %w", podSecurityName, err)
	}
	policy, err := config.ToPolicy(given.Defaults)
	if err != nil {
		return policy, given.Exemptions, fmt.Errorf("%s: defaults: %w", podSecurityName, err)
	}
	return policy, given.Exemptions, nil
}

// isExempt reports whether the sender or the namespace of a request for pods is exempt.
func (p *podSecurity) isExempt(ctx context.Context, r *admission.Request) bool {
	switch {
	case slices.Contains(p.exempt.Namespaces, r.Namespace):
		p.exempted(ctx, r, "namespace")
	case r.User.Name != "" && slices.Contains(p.exempt.Usernames, r.User.Name):
		p.exempted(ctx, r, "user")
	default:
		return false
	}
	return true
}

// isExemptClass reports whether a pod is exempt for its runtime class.
func (p *podSecurity) isExemptClass(ctx context.Context, r *admission.Request, pod *corev1.Pod) bool {
	class := pod.Spec.RuntimeClassName
	if class == nil || *class == "" || !slices.Contains(p.exempt.RuntimeClasses, *class) {
		return false
	}
	p.exempted(ctx, r, "runtimeClass")
	return true
}

func (p *podSecurity) exempted(ctx context.Context, r *admission.Request, why string) {
	annotate(ctx, api.ExemptionReasonAnnotationKey, why)
	p.stats.exemptions.Add(about(r)...)
}

// warnOfExemption says that the labels of an exempt namespace have no effect, if it has any that would.
func (p *podSecurity) warnOfExemption(ctx context.Context, r *admission.Request, want api.Policy) {
	if want.FullyPrivileged() || want.Equivalent(&p.defaults) {
		return
	}
	labels := labelsOf(r.Object)
	var said []string
	for _, m := range []struct {
		mode string
		of   api.LevelVersion
	}{{"enforce", want.Enforce}, {"audit", want.Audit}, {"warn", want.Warn}} {
		_, hasLevel := labels[api.AuditAnnotationPrefix+m.mode]
		_, hasVersion := labels[api.AuditAnnotationPrefix+m.mode+"-version"]
		if m.of.Level != api.LevelPrivileged && (hasLevel || hasVersion) {
			said = append(said, m.mode+"="+m.of.String())
		}
	}
	if len(said) > 0 {
		registry.Warn(ctx, fmt.Sprintf("namespace %q is exempt from Pod Security, and the policy (%s) will be ignored", r.Name, strings.Join(said, ", ")))
	}
}
