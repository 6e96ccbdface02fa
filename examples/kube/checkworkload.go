package kube

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// alwaysRestarted reports pods that are not restarted, in workloads that keep pods running.
func alwaysRestarted(s *corev1.PodSpec, at status.Field) {
	switch s.RestartPolicy {
	case corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever:
		at.Child("restartPolicy").NotSupported(string(s.RestartPolicy), string(corev1.RestartPolicyAlways))
	}
	if s.ActiveDeadlineSeconds != nil {
		at.Child("activeDeadlineSeconds").Forbidden("activeDeadlineSeconds in pods that are kept running is not supported")
	}
}

func (c *cluster) checkReplicationController(rc *corev1.ReplicationController, f *status.Fields) {
	spec := f.At("spec")
	notNegative(spec.Child("replicas"), rc.Spec.Replicas)
	notNegative(spec.Child("minReadySeconds"), &rc.Spec.MinReadySeconds)
	if len(rc.Spec.Selector) == 0 {
		spec.Child("selector").Required("")
	}
	t := rc.Spec.Template
	if t == nil {
		spec.Child("template").Required("")
		return
	}
	if !labels.SelectorFromSet(rc.Spec.Selector).Matches(labels.Set(t.Labels)) {
		spec.Child("template").Child("metadata").Child("labels").Invalid(t.Labels, "`selector` does not match template `labels`")
	}
	c.checkTemplate(t, spec.Child("template"))
	alwaysRestarted(&t.Spec, spec.Child("template").Child("spec"))
}

func (c *cluster) checkDeployment(d *appsv1.Deployment, f *status.Fields) {
	spec := f.At("spec")
	notNegative(spec.Child("replicas"), d.Spec.Replicas)
	notNegative(spec.Child("minReadySeconds"), &d.Spec.MinReadySeconds)
	notNegative(spec.Child("revisionHistoryLimit"), d.Spec.RevisionHistoryLimit)
	notNegative(spec.Child("progressDeadlineSeconds"), d.Spec.ProgressDeadlineSeconds)
	if p := d.Spec.ProgressDeadlineSeconds; p != nil && *p >= 0 && *p <= d.Spec.MinReadySeconds {
		spec.Child("progressDeadlineSeconds").Invalid(*p, "must be greater than minReadySeconds")
	}
	if matches(spec, d.Spec.Selector, d.Spec.Template.Labels, true) {
		c.checkTemplate(&d.Spec.Template, spec.Child("template"))
		alwaysRestarted(&d.Spec.Template.Spec, spec.Child("template").Child("spec"))
	}
	strategy := spec.Child("strategy")
	switch rolling := d.Spec.Strategy.RollingUpdate; d.Spec.Strategy.Type {
	case appsv1.RecreateDeploymentStrategyType:
		if rolling != nil {
			strategy.Child("rollingUpdate").Forbidden("may not be specified when strategy `type` is 'Recreate'")
		}
	case appsv1.RollingUpdateDeploymentStrategyType:
		if rolling == nil {
			strategy.Child("rollingUpdate").Required("this should be defaulted and never be nil")
			break
		}
		percentOrCount(strategy.Child("rollingUpdate").Child("maxUnavailable"), rolling.MaxUnavailable)
		percentOrMore(strategy.Child("rollingUpdate").Child("maxSurge"), rolling.MaxSurge)
		if isZero(rolling.MaxUnavailable) && isZero(rolling.MaxSurge) {
			strategy.Child("rollingUpdate").Child("maxUnavailable").Invalid(rolling.MaxUnavailable, "may not be 0 when `maxSurge` is 0")
		}
	default:
		strategy.NotSupported(string(d.Spec.Strategy.Type), string(appsv1.RecreateDeploymentStrategyType),
			string(appsv1.RollingUpdateDeploymentStrategyType))
	}
}

func checkDeploymentUpdate(d, old *appsv1.Deployment, f *status.Fields) {
	same(f.At("spec", "selector"), reflect.DeepEqual(d.Spec.Selector, old.Spec.Selector), d.Spec.Selector)
}

func (c *cluster) checkReplicaSet(r *appsv1.ReplicaSet, f *status.Fields) {
	spec := f.At("spec")
	notNegative(spec.Child("replicas"), r.Spec.Replicas)
	notNegative(spec.Child("minReadySeconds"), &r.Spec.MinReadySeconds)
	if matches(spec, r.Spec.Selector, r.Spec.Template.Labels, true) {
		c.checkTemplate(&r.Spec.Template, spec.Child("template"))
		alwaysRestarted(&r.Spec.Template.Spec, spec.Child("template").Child("spec"))
	}
}

func checkReplicaSetUpdate(r, old *appsv1.ReplicaSet, f *status.Fields) {
	same(f.At("spec", "selector"), reflect.DeepEqual(r.Spec.Selector, old.Spec.Selector), r.Spec.Selector)
}

func (c *cluster) checkStatefulSet(s *appsv1.StatefulSet, f *status.Fields) {
	spec := f.At("spec")
	notNegative(spec.Child("replicas"), s.Spec.Replicas)
	notNegative(spec.Child("minReadySeconds"), &s.Spec.MinReadySeconds)
	if o := s.Spec.Ordinals; o != nil {
		notNegative(spec.Child("ordinals").Child("start"), &o.Start)
	}
	switch s.Spec.PodManagementPolicy {
	case appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement:
	default:
		spec.Child("podManagementPolicy").Invalid(string(s.Spec.PodManagementPolicy),
			fmt.Sprintf("must be '%s' or '%s'", appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement))
	}
	switch s.Spec.UpdateStrategy.Type {
	case appsv1.OnDeleteStatefulSetStrategyType:
		if s.Spec.UpdateStrategy.RollingUpdate != nil {
			spec.Child("updateStrategy").Child("rollingUpdate").Invalid(s.Spec.UpdateStrategy.RollingUpdate,
				"only allowed for updateStrategy 'RollingUpdate'")
		}
	case appsv1.RollingUpdateStatefulSetStrategyType:
		if r := s.Spec.UpdateStrategy.RollingUpdate; r != nil {
			at := spec.Child("updateStrategy").Child("rollingUpdate")
			notNegative(at.Child("partition"), r.Partition)
			percentOrCount(at.Child("maxUnavailable"), r.MaxUnavailable)
		}
	default:
		spec.Child("updateStrategy").Invalid(s.Spec.UpdateStrategy, "must be 'RollingUpdate' or 'OnDelete'")
	}
	if matches(spec, s.Spec.Selector, s.Spec.Template.Labels, true) {
		c.checkTemplate(withClaims(s), spec.Child("template"))
	}
	alwaysRestarted(&s.Spec.Template.Spec, spec.Child("template").Child("spec"))
}

// checkNewStatefulSet checks what cannot be changed.
func checkNewStatefulSet(s *appsv1.StatefulSet, f *status.Fields) {
	spec := f.At("spec")
	if s.Spec.ServiceName != "" {
		isLabel(spec.Child("serviceName"), s.Spec.ServiceName)
	}
	for i := range s.Spec.VolumeClaimTemplates {
		checkClaimSpec(&s.Spec.VolumeClaimTemplates[i].Spec, spec.Child("volumeClaimTemplates").Index(i).Child("spec"))
	}
}

// withClaims returns the template as the controller uses it: with a volume for each claim, in the place of one of the
// claim's name, and without the names that each pod has of its own.
func withClaims(s *appsv1.StatefulSet) *corev1.PodTemplateSpec {
	t := s.Spec.Template
	t.Spec.Hostname, t.Spec.Subdomain = "", ""
	t.Spec.Volumes = nil
	claimed := map[string]bool{}
	for _, claim := range s.Spec.VolumeClaimTemplates {
		if claimed[claim.Name] {
			continue
		}
		claimed[claim.Name] = true
		t.Spec.Volumes = append(t.Spec.Volumes, corev1.Volume{Name: claim.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
		}})
	}
	for _, v := range s.Spec.Template.Spec.Volumes {
		if !claimed[v.Name] {
			t.Spec.Volumes = append(t.Spec.Volumes, v)
		}
	}
	return &t
}

func checkStatefulSetUpdate(s, old *appsv1.StatefulSet, f *status.Fields) {
	now, before := s.Spec.DeepCopy(), old.Spec.DeepCopy()
	now.Replicas, now.Template, now.UpdateStrategy, now.Ordinals = before.Replicas, before.Template, before.UpdateStrategy, before.Ordinals
	now.MinReadySeconds, now.PersistentVolumeClaimRetentionPolicy, now.RevisionHistoryLimit = before.MinReadySeconds, before.PersistentVolumeClaimRetentionPolicy, before.RevisionHistoryLimit
	if !reflect.DeepEqual(now, before) {
		f.At("spec").Forbidden("updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden")
	}
}

func checkRevision(r *appsv1.ControllerRevision, f *status.Fields) {
	if r.Data.Raw == nil && r.Data.Object == nil {
		f.At("data").Required("data is mandatory")
	}
	notNegative(f.At("revision"), &r.Revision)
}

func checkRevisionUpdate(r, old *appsv1.ControllerRevision, f *status.Fields) {
	same(f.At("data"), bytes.Equal(r.Data.Raw, old.Data.Raw), r.Data)
}

func (c *cluster) checkDaemonSet(d *appsv1.DaemonSet, f *status.Fields) {
	spec := f.At("spec")
	notNegative(spec.Child("minReadySeconds"), &d.Spec.MinReadySeconds)
	notNegative(spec.Child("revisionHistoryLimit"), d.Spec.RevisionHistoryLimit)
	checkDaemonUpdate(&d.Spec.UpdateStrategy, spec.Child("updateStrategy"))
	checkDaemonSelector(d, spec)
	c.checkTemplate(&d.Spec.Template, spec.Child("template"))
	alwaysRestarted(&d.Spec.Template.Spec, spec.Child("template").Child("spec"))
}

// checkDaemonUpdate checks how the pods of a daemon set are replaced: the old one goes first, or the new one comes first.
func checkDaemonUpdate(u *appsv1.DaemonSetUpdateStrategy, at status.Field) {
	oneOf(at, u.Type, appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType)
	r := u.RollingUpdate
	if r == nil || u.Type != appsv1.RollingUpdateDaemonSetStrategyType {
		return
	}
	rolling := at.Child("rollingUpdate")
	percentOrCount(rolling.Child("maxUnavailable"), r.MaxUnavailable)
	percentOrCount(rolling.Child("maxSurge"), r.MaxSurge)
	switch missing, more := someOf(r.MaxUnavailable), someOf(r.MaxSurge); {
	case missing && more:
		rolling.Child("maxSurge").Invalid(r.MaxSurge.String(), "may not be set when maxUnavailable is non-zero")
	case !missing && !more:
		rolling.Child("maxUnavailable").Required("cannot be 0 when maxSurge is 0")
	}
}

// someOf reports whether a number or a percentage is one that is not zero.
func someOf(v *intstr.IntOrString) bool {
	if v == nil {
		return false
	}
	if v.Type == intstr.Int {
		return v.IntVal != 0
	}
	n, err := strconv.ParseUint(strings.TrimSuffix(v.StrVal, "%"), 10, 31)
	return err == nil && n != 0
}

// checkDaemonSelector is matches as kube-apiserver has it for daemon sets, which a selector that nobody can read only makes
// invalid once, and none not at all.
func checkDaemonSelector(d *appsv1.DaemonSet, spec status.Field) {
	checkSelector(spec.Child("selector"), d.Spec.Selector)
	if selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector); err == nil && !selector.Matches(labels.Set(d.Spec.Template.Labels)) {
		spec.Child("template").Child("metadata").Child("labels").Invalid(d.Spec.Template.Labels, "`selector` does not match template `labels`")
	}
	if s := d.Spec.Selector; s != nil && len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		spec.Child("selector").Invalid(s, "empty selector is invalid for daemonset")
	}
}

func checkDaemonSetUpdate(d, old *appsv1.DaemonSet, f *status.Fields) {
	same(f.At("spec", "selector"), reflect.DeepEqual(d.Spec.Selector, old.Spec.Selector), d.Spec.Selector)
}

// scheduleProblem returns what is wrong with a schedule. A schedule has five fields, or is a word
// such as @daily.
func scheduleProblem(s string) string {
	if word, is := strings.CutPrefix(s, "@"); is {
		for _, known := range []string{"yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly"} {
			if word == known {
				return ""
			}
		}
		if strings.HasPrefix(word, "every ") {
			return ""
		}
		return "unrecognized descriptor: " + s
	}
	fields := strings.Fields(s)
	if len(fields) != 5 {
		return fmt.Sprintf("expected exactly 5 fields, found %d: [%s]", len(fields), s)
	}
	for i, field := range fields {
		bounds := [5][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 7}}[i]
		for part := range strings.SplitSeq(field, ",") {
			if !scheduleField(part, bounds[0], bounds[1]) {
				return fmt.Sprintf("failed to parse %q", field)
			}
		}
	}
	return ""
}

// Names of months and days in schedules.
const scheduleNames = "jan feb mar apr may jun jul aug sep oct nov dec sun mon tue wed thu fri sat"

// scheduleField reports whether a part of a schedule is a number, a range or a star, perhaps with a
// step.
func scheduleField(part string, low, high int) bool {
	part, step, stepped := strings.Cut(part, "/")
	var n int
	if stepped {
		if _, err := fmt.Sscanf(step, "%d", &n); err != nil || n <= 0 || fmt.Sprint(n) != step {
			return false
		}
	}
	if part == "*" || part == "?" {
		return true
	}
	for end := range strings.SplitSeq(part, "-") {
		if len(end) == 3 && strings.Contains(scheduleNames, strings.ToLower(end)) {
			continue
		}
		if _, err := fmt.Sscanf(end, "%d", &n); err != nil || n < low || n > high || strings.TrimLeft(end, "0123456789") != "" {
			return false
		}
	}
	return strings.Count(part, "-") < 2
}

func checkBudget(b *policyv1.PodDisruptionBudget, f *status.Fields) {
	spec := f.At("spec")
	if b.Spec.MinAvailable != nil && b.Spec.MaxUnavailable != nil {
		spec.Invalid(b.Spec, "minAvailable and maxUnavailable cannot be both set")
	}
	percentOrCount(spec.Child("minAvailable"), b.Spec.MinAvailable)
	percentOrCount(spec.Child("maxUnavailable"), b.Spec.MaxUnavailable)
	checkSelector(spec.Child("selector"), b.Spec.Selector)
	if p := b.Spec.UnhealthyPodEvictionPolicy; p != nil {
		oneOf(spec.Child("unhealthyPodEvictionPolicy"), *p, policyv1.AlwaysAllow, policyv1.IfHealthyBudget)
	}
}

// checkBudgetUpdate checks the status of a budget, in a write of it.
func checkBudgetUpdate(ctx context.Context, b, _ *policyv1.PodDisruptionBudget, f *status.Fields) {
	if registry.SubresourceFrom(ctx) != "status" {
		return
	}
	checkConditions(f, b.Status.Conditions, "status", "conditions")
	at := f.At("status")
	notNegative(at.Child("disruptionsAllowed"), &b.Status.DisruptionsAllowed)
	notNegative(at.Child("currentHealthy"), &b.Status.CurrentHealthy)
	notNegative(at.Child("desiredHealthy"), &b.Status.DesiredHealthy)
	notNegative(at.Child("expectedPods"), &b.Status.ExpectedPods)
}
