package kube

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // so that zones do not depend on the machine

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// mostIndexed is how many pods of an indexed job can run at once.
const mostIndexed = 100_000

// What a job with very many indexes may have, so that the failed ones fit into its status.
const (
	manyCompletions = 100_000
	mostAtOnce      = 10_000
)

func (c *cluster) checkJob(j *batchv1.Job, f *status.Fields) {
	spec := f.At("spec")
	checkGenerated(j, spec)
	c.checkJobSpec(&j.Spec, spec)
	if n := j.Spec.Completions; isIndexed(&j.Spec) && n != nil && *n > 0 && j.Name != "" {
		if host := fmt.Sprintf("%s-%d", j.Name, *n-1); meta.CheckDNSLabel(host) != "" {
			f.At("metadata", "name").Invalid(j.Name, "will not able to create pod with invalid DNS label: "+host)
		}
	}
	if j.Spec.Selector == nil {
		spec.Child("selector").Required("")
	}
	checkSelector(spec.Child("selector"), j.Spec.Selector)
	selector, err := metav1.LabelSelectorAsSelector(j.Spec.Selector)
	if err == nil && !selector.Matches(labels.Set(j.Spec.Template.Labels)) {
		spec.Child("template").Child("metadata").Child("labels").Invalid(j.Spec.Template.Labels, "`selector` does not match template `labels`")
	}
}

// checkGenerated requires that a job whose selector is made for it has it, and the labels that it selects.
func checkGenerated(j *batchv1.Job, spec status.Field) {
	if j.Spec.ManualSelector != nil && *j.Spec.ManualSelector || j.Spec.Selector == nil {
		return
	}
	own := labels.Set{
		"controller-uid": string(j.UID), "job-name": j.Name, batchv1.ControllerUidLabel: string(j.UID), batchv1.JobNameLabel: j.Name,
	}
	at := spec.Child("template").Child("metadata").Child("labels")
	for _, key := range sortedNames(own) {
		if value, has := j.Spec.Template.Labels[key]; !has {
			at.Key(key).Required("must be '" + own[key] + "'")
		} else if value != own[key] {
			at.Key(key).Invalid(value, "must be '"+own[key]+"'")
		}
	}
	if selector, err := metav1.LabelSelectorAsSelector(j.Spec.Selector); err == nil && !selector.Matches(own) {
		spec.Child("selector").Invalid(j.Spec.Selector, "`selector` not auto-generated")
	}
}

// isIndexed reports whether the pods of a job have an index.
func isIndexed(s *batchv1.JobSpec) bool {
	return s.CompletionMode != nil && *s.CompletionMode == batchv1.IndexedCompletion
}

// checkJobSpec reports errors in a job, including the jobs of cron jobs.
func (c *cluster) checkJobSpec(s *batchv1.JobSpec, spec status.Field) {
	notNegative(spec.Child("parallelism"), s.Parallelism)
	notNegative(spec.Child("completions"), s.Completions)
	notNegative(spec.Child("activeDeadlineSeconds"), s.ActiveDeadlineSeconds)
	notNegative(spec.Child("backoffLimit"), s.BackoffLimit)
	notNegative(spec.Child("ttlSecondsAfterFinished"), s.TTLSecondsAfterFinished)
	notNegative(spec.Child("backoffLimitPerIndex"), s.BackoffLimitPerIndex)
	notNegative(spec.Child("maxFailedIndexes"), s.MaxFailedIndexes)
	if s.MaxFailedIndexes != nil && s.BackoffLimitPerIndex == nil {
		spec.Child("backoffLimitPerIndex").Required("when maxFailedIndexes is specified")
	}
	if m := s.ManagedBy; m != nil {
		if *m == "" {
			spec.Child("managedBy").Required("")
		} else if domain, path, ok := strings.Cut(*m, "/"); !ok || path == "" || meta.CheckDNSSubdomain(domain) != "" {
			spec.Child("managedBy").Invalid(*m, "must be a domain-prefixed path (such as \"acme.io/foo\")")
		}
		if len(*m) > mostManager {
			spec.Child("managedBy").TooLong(mostManager)
		}
	}
	if s.CompletionMode != nil {
		oneOf(spec.Child("completionMode"), *s.CompletionMode, batchv1.NonIndexedCompletion, batchv1.IndexedCompletion)
	}
	checkIndexes(s, spec)
	checkFailurePolicy(s, spec)
	checkSuccessPolicy(s, spec.Child("successPolicy"))
	if p := s.PodReplacementPolicy; p != nil && s.PodFailurePolicy != nil {
		oneOf(spec.Child("podReplacementPolicy"), *p, batchv1.Failed)
	}
	at := spec.Child("template")
	c.checkTemplate(&s.Template, at)
	if s.Template.Spec.RestartPolicy == corev1.RestartPolicyAlways {
		at.Child("spec").Child("restartPolicy").Required("valid values: \"OnFailure\", \"Never\"")
	}
}

// mostManager is how long the name of what runs a job is.
const mostManager = 63

// checkIndexes checks what only jobs with indexes may have, and how many pods such a job has at once.
func checkIndexes(s *batchv1.JobSpec, spec status.Field) {
	if s.CompletionMode == nil || *s.CompletionMode == batchv1.NonIndexedCompletion {
		for name, n := range map[string]*int32{"backoffLimitPerIndex": s.BackoffLimitPerIndex, "maxFailedIndexes": s.MaxFailedIndexes} {
			if n != nil {
				spec.Child(name).Invalid(*n, "requires indexed completion mode")
			}
		}
	}
	if !isIndexed(s) {
		return
	}
	atMost := func(name string, n *int32, most int32) {
		if n != nil && *n > most {
			spec.Child(name).Invalid(*n, fmt.Sprintf("must be less than or equal to %d for so many indexes", most))
		}
	}
	atMost("parallelism", s.Parallelism, mostIndexed)
	atMost("maxFailedIndexes", s.MaxFailedIndexes, mostIndexed)
	if s.Completions == nil {
		spec.Child("completions").Required("when completion mode is Indexed")
		return
	}
	atMost("maxFailedIndexes", s.MaxFailedIndexes, max(*s.Completions, 0))
	if *s.Completions <= manyCompletions || s.BackoffLimitPerIndex == nil {
		return
	}
	if s.MaxFailedIndexes == nil {
		spec.Child("maxFailedIndexes").Required(fmt.Sprintf("must be specified when completions is above %d", manyCompletions))
	}
	atMost("parallelism", s.Parallelism, mostAtOnce)
	atMost("maxFailedIndexes", s.MaxFailedIndexes, mostAtOnce)
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
		checkFailureRule(s, &s.PodFailurePolicy.Rules[i], rules.Index(i))
	}
}

// mostPatterns is how many conditions a rule looks at.
const mostPatterns = 20

func checkFailureRule(s *batchv1.JobSpec, r *batchv1.PodFailurePolicyRule, at status.Field) {
	if r.Action == batchv1.PodFailurePolicyActionFailIndex && s.BackoffLimitPerIndex == nil {
		at.Child("action").Invalid(string(r.Action), "requires the backoffLimitPerIndex to be set")
	}
	if n := len(r.OnPodConditions); n > mostPatterns {
		at.Child("onPodConditions").TooMany(n, mostPatterns)
	}
	if r.OnExitCodes != nil && r.OnExitCodes.ContainerName != nil && !hasContainer(&s.Template.Spec, *r.OnExitCodes.ContainerName) {
		at.Child("onExitCodes").Child("containerName").Invalid(*r.OnExitCodes.ContainerName,
			"must be one of the container or initContainer names in the pod template")
	}
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

// What a policy for success may hold.
const (
	mostSuccessRules = 20
	mostIndexText    = 64 << 10
)

// checkSuccessPolicy checks when a job with indexes has succeeded before all of them have.
func checkSuccessPolicy(s *batchv1.JobSpec, at status.Field) {
	p := s.SuccessPolicy
	switch {
	case p == nil:
		return
	case !isIndexed(s):
		at.Invalid(p, "requires indexed completion mode")
		return
	}
	rules := at.Child("rules")
	if len(p.Rules) == 0 {
		rules.Required("at least one rule must be there")
	}
	if n := len(p.Rules); n > mostSuccessRules {
		rules.TooMany(n, mostSuccessRules)
	}
	completions := int32(0)
	if s.Completions != nil {
		completions = *s.Completions
	}
	for i, r := range p.Rules {
		one, named := rules.Index(i), int32(0)
		if r.SucceededCount == nil && r.SucceededIndexes == nil {
			one.Required("at least one of succeededCount or succeededIndexes must be specified")
		}
		if text := r.SucceededIndexes; text != nil {
			if len(*text) > mostIndexText {
				one.Child("succeededIndexes").TooLong(mostIndexText)
			}
			var ok bool
			if named, ok = countIndexes(*text, completions); !ok {
				one.Child("succeededIndexes").Invalid(*text, "must be rising numbers and ranges below the completions, such as 0,2-4")
			}
		}
		if n := r.SucceededCount; n != nil {
			at := one.Child("succeededCount")
			notNegative(at, n)
			if *n > completions || r.SucceededIndexes != nil && *n > named {
				at.Invalid(*n, "must not be more than there are indexes")
			}
		}
	}
}

// countIndexes returns how many indexes a text such as 0,2-4 names, and whether it names any in their order.
func countIndexes(text string, completions int32) (count int32, ok bool) {
	spans, ok := indexSpans(text, completions)
	for _, s := range spans {
		count += int32(s.last - s.first + 1) //nolint:gosec // below the completions, which are an int32
	}
	return count, ok
}

// span are the numbers from first to last.
type span struct{ first, last int }

// indexSpans reads a text such as 0,2-4. It is wrong if its numbers do not rise, or reach the completions.
func indexSpans(text string, completions int32) (out []span, ok bool) {
	last := -1
	if text == "" {
		return nil, true
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		low, err := strconv.Atoi(from)
		high := low
		if err == nil && isRange {
			high, err = strconv.Atoi(to)
		}
		if err != nil || low <= last || high >= int(completions) || isRange && low >= high {
			return nil, false
		}
		last, out = high, append(out, span{first: low, last: high})
	}
	return out, true
}

func (c *cluster) checkJobUpdate(j, old *batchv1.Job, f *status.Fields) {
	spec := f.At("spec")
	kept := func(name string, now, before any) {
		same(spec.Child(name), equality.Semantic.DeepEqual(now, before), now)
	}
	kept("selector", j.Spec.Selector, old.Spec.Selector)
	kept("completionMode", j.Spec.CompletionMode, old.Spec.CompletionMode)
	kept("podFailurePolicy", j.Spec.PodFailurePolicy, old.Spec.PodFailurePolicy)
	kept("backoffLimitPerIndex", j.Spec.BackoffLimitPerIndex, old.Spec.BackoffLimitPerIndex)
	kept("managedBy", j.Spec.ManagedBy, old.Spec.ManagedBy)
	kept("successPolicy", j.Spec.SuccessPolicy, old.Spec.SuccessPolicy)
	c.checkJobTemplateUpdate(j, old, spec)
	switch n := j.Spec.Completions; {
	case !isIndexed(&j.Spec):
		kept("completions", n, old.Spec.Completions)
	case n == nil || equality.Semantic.DeepEqual(n, old.Spec.Completions):
	case j.Spec.Parallelism == nil || *n != *j.Spec.Parallelism:
		spec.Child("completions").Invalid(*n, "can only be modified in tandem with spec.parallelism")
	}
}

// checkJobTemplateUpdate reports changes of the pods of a job. While a job is suspended and has no pods, where they may run
// and what they request may change. Without the features for that only the former may, and only before the first start.
func (c *cluster) checkJobTemplateUpdate(j, old *batchv1.Job, spec status.Field) {
	suspended := old.Spec.Suspend != nil && *old.Spec.Suspend
	stopped := slices.ContainsFunc(old.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobSuspended && c.Status == corev1.ConditionTrue
	})
	idle := suspended && old.Status.Active == 0 && (old.Status.StartTime == nil || stopped)
	places := idle
	if c.off(gateSuspendedPlaces) {
		places = suspended && old.Status.StartTime == nil
	}
	now, before := &j.Spec.Template, old.Spec.Template.DeepCopy()
	if places {
		takePlaces(now, before)
	}
	if !idle || c.off(gateSuspendedResources) {
		same(spec.Child("template"), equality.Semantic.DeepEqual(now, before), now)
		return
	}
	s := &before.Spec
	for _, lists := range [][2][]corev1.Container{{now.Spec.Containers, s.Containers}, {now.Spec.InitContainers, s.InitContainers}} {
		for i := range lists[1] {
			if len(lists[0]) == len(lists[1]) && lists[0][i].Name == lists[1][i].Name {
				lists[1][i].Resources = lists[0][i].Resources
			}
		}
	}
	same(spec.Child("template.spec"), equality.Semantic.DeepEqual(&now.Spec, s), now.Spec)
}

// takePlaces gives a template what another one says about where its pods may run.
func takePlaces(now, before *corev1.PodTemplateSpec) {
	before.Labels, before.Annotations = now.Labels, now.Annotations
	s := &before.Spec
	s.NodeSelector, s.Tolerations, s.SchedulingGates = now.Spec.NodeSelector, now.Spec.Tolerations, now.Spec.SchedulingGates
	if now.Spec.Affinity != nil || s.Affinity != nil {
		point(&s.Affinity, corev1.Affinity{})
		if s.Affinity.NodeAffinity = nil; now.Spec.Affinity != nil {
			s.Affinity.NodeAffinity = now.Spec.Affinity.NodeAffinity
		}
		if now.Spec.Affinity == nil && *s.Affinity == (corev1.Affinity{}) {
			s.Affinity = nil
		}
	}
}

func (c *cluster) checkCronJob(j *batchv1.CronJob, f *status.Fields) {
	spec := f.At("spec")
	if why := scheduleProblem(j.Spec.Schedule); j.Spec.Schedule == "" {
		spec.Child("schedule").Required("")
	} else if why != "" {
		spec.Child("schedule").Invalid(j.Spec.Schedule, why)
	}
	oneOf(spec.Child("concurrencyPolicy"), j.Spec.ConcurrencyPolicy, batchv1.AllowConcurrent,
		batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)
	notNegative(spec.Child("startingDeadlineSeconds"), j.Spec.StartingDeadlineSeconds)
	notNegative(spec.Child("successfulJobsHistoryLimit"), j.Spec.SuccessfulJobsHistoryLimit)
	notNegative(spec.Child("failedJobsHistoryLimit"), j.Spec.FailedJobsHistoryLimit)
	job, at := &j.Spec.JobTemplate.Spec, spec.Child("jobTemplate").Child("spec")
	c.checkJobSpec(job, at)
	if job.Selector != nil {
		at.Child("selector").Invalid(job.Selector, "`selector` will be auto-generated")
	}
	if job.ManualSelector != nil && *job.ManualSelector {
		at.Child("manualSelector").NotSupported("true", "nil", "false")
	}
}

// zoneNames are the parts of names of time zones.
var zoneNames = regexp.MustCompile(`^[A-Za-z\.\-_0-9+]{1,}$`)

// checkZone checks in which time zone a schedule is meant. One that is stored stays, though it may have ceased to be.
func checkZone(j, old *batchv1.CronJob, f *status.Fields) {
	zone, at := j.Spec.TimeZone, f.At("spec", "timeZone")
	if zone == nil || old != nil && old.Spec.TimeZone != nil && *old.Spec.TimeZone == *zone {
		return
	}
	for part := range strings.SplitSeq(*zone, "/") {
		if part == "." || part == ".." || strings.HasPrefix(part, "-") || !zoneNames.MatchString(part) {
			at.Invalid(*zone, "unknown time zone")
			return
		}
	}
	if strings.EqualFold(*zone, "Local") {
		at.Invalid(*zone, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones")
	} else if _, err := time.LoadLocation(*zone); err != nil {
		at.Invalid(*zone, "unknown time zone")
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
