package kube

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kindwright/kindwright/status"
)

// jobStatus is the status of a job that is written, and the one before. Most checks look at what a write changes only: a
// controller must be able to write a status although somebody has changed the spec under it.
type jobStatus struct {
	job, old *batchv1.Job
	at       status.Field
}

// checkJobStatus reports errors in the status of a job. Without jobs that others manage, one controller
// alone writes statuses, and may write what contradicts itself.
func (c *cluster) checkJobStatus(j, old *batchv1.Job, f *status.Fields) {
	s := jobStatus{job: j, old: old, at: f.At("status")}
	s.checkCounts()
	s.checkUncounted()
	if c.off("JobManagedBy") {
		return
	}
	s.checkReady()
	s.checkConditions()
	s.checkFinished()
	s.checkTimes()
	s.checkIndexes()
}

// has reports whether a condition of a job is true.
func (s *jobStatus) has(j *batchv1.Job, kind batchv1.JobConditionType) bool {
	return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
}

// is reports whether a condition of the job is true now.
func (s *jobStatus) is(kind batchv1.JobConditionType) bool { return s.has(s.job, kind) }

// turned reports whether one of some conditions has become true, or is no longer.
func (s *jobStatus) turned(kinds ...batchv1.JobConditionType) bool {
	return slices.ContainsFunc(kinds, func(kind batchv1.JobConditionType) bool { return s.has(s.job, kind) != s.has(s.old, kind) })
}

// finished reports whether a job is over.
func (s *jobStatus) finished(j *batchv1.Job) bool {
	return s.has(j, batchv1.JobComplete) || s.has(j, batchv1.JobFailed)
}

func (s *jobStatus) checkCounts() {
	now := &s.job.Status
	notNegative(s.at.Child("active"), &now.Active)
	notNegative(s.at.Child("succeeded"), &now.Succeeded)
	notNegative(s.at.Child("failed"), &now.Failed)
	notNegative(s.at.Child("ready"), now.Ready)
	notNegative(s.at.Child("terminating"), now.Terminating)
}

func (s *jobStatus) checkReady() {
	now, before := &s.job.Status, &s.old.Status
	if now.Ready != nil && *now.Ready > now.Active && (now.Active != before.Active || !equality.Semantic.DeepEqual(now.Ready, before.Ready)) {
		s.at.Child("ready").Invalid(*now.Ready, "must not be more than are active")
	}
	if now.Failed < before.Failed {
		s.at.Child("failed").Invalid(now.Failed, "must not become less")
	}
	// An indexed job that is made smaller forgets the indexes that it no longer has.
	spec := &s.job.Spec
	if now.Succeeded < before.Succeeded && (!isIndexed(spec) || !equality.Semantic.DeepEqual(spec.Completions, spec.Parallelism)) {
		s.at.Child("succeeded").Invalid(now.Succeeded, "must not become less")
	}
}

// checkUncounted checks the pods that have ended and are not counted yet.
func (s *jobStatus) checkUncounted() {
	pods := s.job.Status.UncountedTerminatedPods
	if pods == nil {
		return
	}
	seen := unique{}
	for _, list := range []struct {
		name string
		uids []types.UID
	}{{"succeeded", pods.Succeeded}, {"failed", pods.Failed}} {
		for i, uid := range list.uids {
			one := s.at.Child("uncountedTerminatedPods").Child(list.name).Index(i)
			if uid == "" {
				one.Invalid("", "must not be empty")
			}
			seen.check(one, string(uid))
		}
	}
}

// checkConditions reports conditions that contradict each other, and those that are taken back although they are final.
func (s *jobStatus) checkConditions() {
	const complete, failed, failing, met = batchv1.JobComplete, batchv1.JobFailed, batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet
	at := s.at.Child("conditions")
	failedIndexes := !equality.Semantic.DeepEqual(s.job.Status.FailedIndexes, s.old.Status.FailedIndexes)
	for _, c := range []struct {
		wrong bool
		kind  batchv1.JobConditionType
		why   string
	}{
		{s.turned(complete, failed) && s.is(complete) && s.is(failed), complete, "a job that has failed is not complete"},
		{s.turned(complete, failing) && s.is(complete) && s.is(failing), complete, "a job that is to fail is not complete"},
		{(s.turned(failed) || failedIndexes) && s.is(failed) && !s.is(failing), failed, "FailureTarget must be true before"},
		{s.turned(complete, met) && s.is(complete) && !s.is(met), complete, "SuccessCriteriaMet must be true before"},
		{s.is(met) && s.is(failed), met, "a job that has failed has not succeeded"},
		{s.is(met) && s.is(failing), met, "a job that is to fail has not succeeded"},
		{s.job.Spec.SuccessPolicy != nil && s.is(complete) && !s.is(met), complete, "a job with a policy for success needs SuccessCriteriaMet"},
		{s.has(s.old, complete) && !s.has(s.old, met) && s.is(met), met, "comes too late for a job that is complete"},
	} {
		if c.wrong {
			at.Invalid(string(c.kind), c.why)
		}
	}
	for _, kind := range []batchv1.JobConditionType{failed, complete, failing, met} {
		if s.has(s.old, kind) && !s.is(kind) {
			at.Invalid(string(kind), "is final")
		}
	}
}

// checkFinished reports what a job that is over does not have: pods, and no start.
func (s *jobStatus) checkFinished() {
	if !s.finished(s.job) {
		return
	}
	now, before := &s.job.Status, &s.old.Status
	ended := !s.finished(s.old)
	const why = "must be 0 when the job is over"
	if now.Active > 0 && (ended || now.Active != before.Active) {
		s.at.Child("active").Invalid(now.Active, why)
	}
	if n := now.Terminating; n != nil && *n > 0 && (ended || !equality.Semantic.DeepEqual(n, before.Terminating)) {
		s.at.Child("terminating").Invalid(*n, why)
	}
	if u := now.UncountedTerminatedPods; u != nil && len(u.Succeeded)+len(u.Failed) > 0 &&
		(ended || !equality.Semantic.DeepEqual(u, before.UncountedTerminatedPods)) {
		s.at.Child("uncountedTerminatedPods").Invalid(u, "must be empty when the job is over")
	}
	spec := &s.job.Spec
	never := spec.Suspend != nil && *spec.Suspend && spec.Completions != nil && *spec.Completions == 0
	if now.StartTime == nil && !never && (ended || before.StartTime != nil) {
		s.at.Child("startTime").Required("the job is over")
	}
}

// checkTimes checks when a job has begun and ended.
func (s *jobStatus) checkTimes() {
	now, before := &s.job.Status, &s.old.Status
	started := !now.StartTime.Equal(before.StartTime)
	ended := !now.CompletionTime.Equal(before.CompletionTime)
	at := s.at.Child("completionTime")
	if complete := s.is(batchv1.JobComplete); ended || s.turned(batchv1.JobComplete) {
		switch {
		case complete && now.CompletionTime == nil:
			at.Required("the job is complete")
		case !complete && now.CompletionTime != nil:
			at.Invalid(now.CompletionTime, "must not be there before the job is complete")
		}
	}
	if (started || ended) && now.StartTime != nil && now.CompletionTime != nil && now.CompletionTime.Before(now.StartTime) {
		at.Invalid(now.CompletionTime, "must not be before startTime")
	}
	same(at, !ended || now.CompletionTime == nil || before.CompletionTime == nil, now.CompletionTime)
	// A job that is resumed starts anew.
	suspended := s.job.Spec.Suspend != nil && *s.job.Spec.Suspend
	resumed := s.has(s.old, batchv1.JobSuspended) && slices.ContainsFunc(now.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobSuspended && c.Status == corev1.ConditionFalse
	})
	same(s.at.Child("startTime"), !started || before.StartTime == nil || suspended || resumed, now.StartTime)
}

// checkIndexes checks which indexes have succeeded and which have failed.
func (s *jobStatus) checkIndexes() {
	now, before, spec := &s.job.Status, &s.old.Status, &s.job.Spec
	succeeded := now.CompletedIndexes != before.CompletedIndexes
	failed := !equality.Semantic.DeepEqual(now.FailedIndexes, before.FailedIndexes)
	const form = "must be rising numbers and ranges below the completions, such as 0,2-4"
	at := s.at.Child("completedIndexes")
	done, doneRight := []span(nil), true
	if spec.Completions != nil {
		done, doneRight = indexSpans(now.CompletedIndexes, *spec.Completions)
	}
	if succeeded && !doneRight {
		at.Invalid(now.CompletedIndexes, form)
	}
	if succeeded && now.CompletedIndexes != "" && !isIndexed(spec) {
		at.Invalid(now.CompletedIndexes, "requires indexed completion mode")
	}
	if now.FailedIndexes == nil {
		return
	}
	at = s.at.Child("failedIndexes")
	if failed && spec.BackoffLimitPerIndex == nil {
		at.Invalid(*now.FailedIndexes, "requires backoffLimitPerIndex")
	}
	if spec.Completions == nil {
		return
	}
	lost, lostRight := indexSpans(*now.FailedIndexes, *spec.Completions)
	if failed && spec.BackoffLimitPerIndex != nil && !lostRight {
		at.Invalid(*now.FailedIndexes, form)
	}
	if (failed || succeeded) && doneRight && lostRight && spansMeet(done, lost) {
		at.Invalid(*now.FailedIndexes, "must not have an index that has succeeded")
	}
}

// spansMeet reports whether two lists of spans, each rising, have a number in common.
func spansMeet(a, b []span) bool {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].last < b[0].first:
			a = a[1:]
		case b[0].last < a[0].first:
			b = b[1:]
		default:
			return true
		}
	}
	return false
}
