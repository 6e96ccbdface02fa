package kube

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	config "k8s.io/pod-security-admission/admission/api"
	"k8s.io/pod-security-admission/api"
	standards "k8s.io/pod-security-admission/policy"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// podSecurityName is the name of the plugin.
const podSecurityName = "PodSecurity"

// templatePaths are where pod templates are, by resource. The pods themselves are checked as a whole.
func templatePaths() map[string][]string {
	template := []string{"spec", "template"}
	return map[string][]string{
		"podtemplates": {"template"}, "replicationcontrollers": template,
		"replicasets": template, "deployments": template, "statefulsets": template, "daemonsets": template,
		"jobs": template, "cronjobs": {"spec", "jobTemplate", "spec", "template"},
	}
}

// podSecurity is the admission plugin PodSecurity: the labels of a namespace say which of the Pod
// Security Standards its pods must keep (enforce), and by which of them a pod causes a warning (warn)
// or a note in the audit log (audit). Templates of pods are never refused, for their pods will be.
// The standards are those of k8s.io/pod-security-admission. Without labels the defaults of a configuration
// count, which allow everything unless they say something else.
type podSecurity struct {
	evaluator standards.Evaluator
	defaults  api.Policy
	exempt    config.PodSecurityExemptions
	paths     map[string][]string
	stats     *podSecurityStats
}

func newPodSecurity(given *config.PodSecurityConfiguration, stats *podSecurityStats) (*podSecurity, error) {
	defaults, exempt, err := podSecurityConfiguration(given)
	if err != nil {
		return nil, err
	}
	e, err := standards.NewEvaluator(standards.DefaultChecks(), &stats.release)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", podSecurityName, err)
	}
	return &podSecurity{e, defaults, exempt, templatePaths(), stats}, nil
}

func (p *podSecurity) plugin() admission.Plugin {
	rule := func(group string, resources ...string) admission.Rule {
		return admission.Rule{
			Operations: []admission.Operation{admission.Create, admission.Update}, Groups: []string{group}, Resources: resources,
		}
	}
	return admission.Plugin{
		Name: podSecurityName, Validator: admission.ValidatorFunc(p.validate),
		Rules: []admission.Rule{
			rule("", "namespaces", "pods", "pods/ephemeralcontainers", "pods/resize", "podtemplates", "replicationcontrollers"),
			rule("apps", "replicasets", "deployments", "statefulsets", "daemonsets"),
			rule("batch", "jobs", "cronjobs"),
		},
	}
}

func (p *podSecurity) validate(ctx context.Context, r *admission.Request) error {
	if r.Resource.Resource == "namespaces" {
		return p.namespace(ctx, r)
	}
	if p.isExempt(ctx, r) {
		return nil
	}
	isPod := r.Resource.Resource == "pods"
	ns, err := r.Server.Get(ctx, meta.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "", r.Namespace)
	switch {
	case err == nil:
	case isPod:
		p.stats.failed(true, r)
		return status.Internal(fmt.Errorf("%s: failed to look up namespace %q: %w", podSecurityName, r.Namespace, err))
	default:
		p.stats.failed(true, r)
		annotate(ctx, "error", fmt.Sprintf("failed to lookup namespace %q", r.Namespace))
		return nil
	}
	want, wrong := api.PolicyToEvaluate(labelsOf(ns), p.defaults)
	switch {
	case len(wrong) > 0: // the policy is then as strict as can be
		p.stats.failed(false, r)
		annotate(ctx, "error", "Failed to parse policy: "+wrong.ToAggregate().Error())
	case isPod && want.FullyPrivileged():
		p.stats.evaluated(true, want.Enforce, "enforce", r)
		annotate(ctx, api.EnforcedPolicyAnnotationKey, want.Enforce.String())
		return nil
	case !isPod && want.Warn.Level == api.LevelPrivileged && want.Audit.Level == api.LevelPrivileged:
		return nil
	}
	if isPod && r.Operation == admission.Update && !imagesChange(r) {
		return nil
	}
	pod, err := p.podOf(r)
	if err != nil || pod == nil || p.isExemptClass(ctx, r, pod) {
		return err
	}
	return p.check(ctx, r, want, pod, isPod)
}

// podOf returns the pod of a request, or what a template makes of one; nil if it has none.
func (p *podSecurity) podOf(r *admission.Request) (*corev1.Pod, error) {
	tree, ok := at(r.Object, p.paths[r.Resource.Resource]...).(map[string]any)
	if !ok {
		return nil, nil
	}
	pod := new(corev1.Pod)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tree, pod); err != nil {
		p.stats.failed(true, r)
		return nil, status.BadRequest("failed to decode pod: %v", err)
	}
	return pod, nil
}

// check compares a pod with what its namespace asks for. Only pods themselves are refused.
func (p *podSecurity) check(ctx context.Context, r *admission.Request, want api.Policy, pod *corev1.Pod, enforce bool) error {
	results := map[api.LevelVersion]standards.AggregateCheckResult{}
	violation := func(of api.LevelVersion, verb string) (string, bool) {
		result, known := results[of]
		if !known {
			result = standards.AggregateCheckResults(p.evaluator.EvaluatePod(of, &pod.ObjectMeta, &pod.Spec))
			results[of] = result
		}
		return fmt.Sprintf("%s PodSecurity %q: %s", verb, of.String(), result.ForbiddenDetail()), !result.Allowed
	}
	var refused error
	if enforce {
		annotate(ctx, api.EnforcedPolicyAnnotationKey, want.Enforce.String())
		text, bad := violation(want.Enforce, "violates")
		p.stats.evaluated(!bad, want.Enforce, "enforce", r)
		if bad {
			refused = admission.Denied(r, text)
		}
	}
	if text, bad := violation(want.Audit, "would violate"); bad {
		annotate(ctx, api.AuditViolationsAnnotationKey, text)
		p.stats.evaluated(false, want.Audit, "audit", r)
	}
	if refused != nil {
		return refused
	}
	if text, bad := violation(want.Warn, "would violate"); bad {
		registry.Warn(ctx, text)
		p.stats.evaluated(false, want.Warn, "warn", r)
	}
	return nil
}

// imagesChange reports whether an update of a pod changes what the standards depend on: containers
// that come or go, and images, whose seccomp and AppArmor annotations may change with them. Nothing
// else of a pod that they look at can be changed.
func imagesChange(r *admission.Request) bool {
	for _, name := range []string{"containers", "initContainers", "ephemeralContainers"} {
		now, old := list(at(r.Object, "spec", name)), list(at(r.OldObject, "spec", name))
		if len(now) != len(old) {
			return true
		}
		for i := range now {
			if word(at(now[i], "name")) != word(at(old[i], "name")) || word(at(now[i], "image")) != word(at(old[i], "image")) {
				return true
			}
		}
	}
	return false
}

// namespace refuses labels that are no policy, and warns of the pods that a stricter one would refuse.
func (p *podSecurity) namespace(ctx context.Context, r *admission.Request) error {
	want, wrong := api.PolicyToEvaluate(labelsOf(r.Object), p.defaults)
	isExempt := slices.Contains(p.exempt.Namespaces, r.Name)
	if r.Operation == admission.Create {
		if isExempt && len(wrong) == 0 {
			p.warnOfExemption(ctx, r, want)
		}
		return invalidLabels(r, wrong)
	}
	had, before := api.PolicyToEvaluate(labelsOf(r.OldObject), p.defaults)
	if len(wrong) > 0 && !slices.EqualFunc(wrong, before, func(a, b *field.Error) bool { return a.Error() == b.Error() }) {
		return invalidLabels(r, wrong)
	}
	weaker := want.Enforce.Version == had.Enforce.Version && api.CompareLevels(want.Enforce.Level, had.Enforce.Level) < 1
	if want.Enforce == had.Enforce || want.Enforce.Level == api.LevelPrivileged || weaker {
		return nil
	}
	if isExempt {
		p.warnOfExemption(ctx, r, want)
		return nil
	}
	p.warnOfPods(ctx, r, want.Enforce)
	return nil
}

func invalidLabels(r *admission.Request, wrong field.ErrorList) error {
	var errs []status.FieldError
	for _, e := range wrong {
		errs = append(errs, status.FieldError{
			Type: meta.CauseType(e.Type), Field: e.Field, Value: e.BadValue, Detail: e.Detail,
		})
	}
	if len(errs) == 0 {
		return nil
	}
	return status.Invalid(r.Kind.GroupKind(), r.Name, errs)
}

func labelsOf(object map[string]any) map[string]string {
	tree, _ := at(object, "metadata", "labels").(map[string]any)
	out := make(map[string]string, len(tree))
	for k, v := range tree {
		out[k] = word(v)
	}
	return out
}

func annotate(ctx context.Context, key, value string) {
	request.ExchangeFrom(ctx).Annotate(api.AuditAnnotationPrefix+key, value)
}
