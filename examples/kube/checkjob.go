package kube

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// mostIndexed is how many pods of an indexed job can run at once.
const mostIndexed = 100_000

// checkIndexed checks a job whose pods have an index, which is part of their host names.
func checkIndexed(j *batchv1.Job, f *status.Fields) {
	if j.Spec.CompletionMode == nil || *j.Spec.CompletionMode != batchv1.IndexedCompletion {
		return
	}
	if n := j.Spec.Parallelism; n != nil && *n > mostIndexed {
		f.At("spec", "parallelism").Invalid(*n, fmt.Sprintf("must be less than or equal to %d when completion mode is Indexed", mostIndexed))
	}
	if n := j.Spec.Completions; n != nil && *n > 0 && j.Name != "" {
		if host := fmt.Sprintf("%s-%d", j.Name, *n-1); meta.CheckDNSLabel(host) != "" {
			f.At("metadata", "name").Invalid(j.Name, "will not able to create pod with invalid DNS label: "+host)
		}
	}
}

// checkFailurePolicy checks what failures of pods do to a job.
func checkFailurePolicy(s *batchv1.JobSpec, spec status.Field) {
	if s.PodFailurePolicy == nil {
		return
	}
	if s.Template.Spec.RestartPolicy == corev1.RestartPolicyOnFailure {
		spec.Child("template").Child("spec").Child("restartPolicy").Invalid(string(s.Template.Spec.RestartPolicy),
			"only \"Never\" is supported when podFailurePolicy is specified")
	}
	rules := spec.Child("podFailurePolicy").Child("rules")
	if n := len(s.PodFailurePolicy.Rules); n > 20 {
		rules.TooMany(n, 20)
	}
	for i := range s.PodFailurePolicy.Rules {
		checkFailureRule(&s.PodFailurePolicy.Rules[i], rules.Index(i))
	}
}

func checkFailureRule(r *batchv1.PodFailurePolicyRule, at status.Field) {
	choice(at.Child("action"), r.Action, batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailIndex,
		batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore)
	switch {
	case r.OnExitCodes != nil && len(r.OnPodConditions) > 0:
		at.Invalid("", "specifying both OnExitCodes and OnPodConditions is not supported")
	case r.OnExitCodes == nil && len(r.OnPodConditions) == 0:
		at.Invalid("", "specifying one of OnExitCodes and OnPodConditions is required")
	}
	if r.OnExitCodes != nil {
		checkExitCodes(r.OnExitCodes, at.Child("onExitCodes"))
	}
	for i, c := range r.OnPodConditions {
		one := at.Child("onPodConditions").Index(i)
		if why := meta.CheckQualifiedName(string(c.Type)); why != "" {
			one.Child("type").Invalid(string(c.Type), why)
		}
		choice(one.Child("status"), c.Status, corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown)
	}
}

func checkExitCodes(e *batchv1.PodFailurePolicyOnExitCodesRequirement, at status.Field) {
	choice(at.Child("operator"), e.Operator, batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn)
	values := at.Child("values")
	switch n := len(e.Values); {
	case n == 0:
		values.Invalid(e.Values, "at least one value is required")
	case n > 255:
		values.TooMany(n, 255)
	}
	seen := map[int32]bool{}
	for i, v := range e.Values {
		if seen[v] {
			values.Index(i).Duplicate(v)
		}
		if v == 0 && e.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn {
			values.Index(i).Invalid(v, "must not be 0 for the In operator")
		}
		seen[v] = true
	}
	if !slices.IsSorted(e.Values) {
		values.Invalid(e.Values, "must be ordered")
	}
}

// choice is oneOf for a value that must be there.
func choice[S ~string](at status.Field, value S, allowed ...S) {
	if value == "" {
		at.Required(fmt.Sprintf("valid values: %q", allowed))
		return
	}
	oneOf(at, value, allowed...)
}
