package kube

import (
	"maps"
	"math"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func fillReplicationController(rc *corev1.ReplicationController) {
	point(&rc.Spec.Replicas, 1)
	t := rc.Spec.Template
	if t == nil {
		return
	}
	fillPodSpec(&t.Spec)
	if len(rc.Spec.Selector) == 0 {
		rc.Spec.Selector = maps.Clone(t.Labels)
	}
	if len(rc.Labels) == 0 {
		rc.Labels = maps.Clone(t.Labels)
	}
}

func fillDeployment(d *appsv1.Deployment) {
	fillPodSpec(&d.Spec.Template.Spec)
	point(&d.Spec.Replicas, 1)
	point(&d.Spec.RevisionHistoryLimit, 10)
	point(&d.Spec.ProgressDeadlineSeconds, 600)
	strategy := &d.Spec.Strategy
	set(&strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		point(&strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
		point(&strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
		point(&strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
	}
}

func fillReplicaSet(r *appsv1.ReplicaSet) {
	fillPodSpec(&r.Spec.Template.Spec)
	point(&r.Spec.Replicas, 1)
}

func fillStatefulSet(s *appsv1.StatefulSet) {
	fillPodSpec(&s.Spec.Template.Spec)
	set(&s.Spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	update := &s.Spec.UpdateStrategy
	if update.Type == "" {
		update.Type = appsv1.RollingUpdateStatefulSetStrategyType
		point(&update.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
	}
	if update.Type == appsv1.RollingUpdateStatefulSetStrategyType && update.RollingUpdate != nil {
		point(&update.RollingUpdate.Partition, 0)
	}
	point(&s.Spec.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	keep := s.Spec.PersistentVolumeClaimRetentionPolicy
	set(&keep.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	set(&keep.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	point(&s.Spec.Replicas, 1)
	point(&s.Spec.RevisionHistoryLimit, 10)
	for i := range s.Spec.VolumeClaimTemplates {
		c := &s.Spec.VolumeClaimTemplates[i]
		c.Kind, c.APIVersion = "PersistentVolumeClaim", "v1"
		set(&c.Status.Phase, corev1.ClaimPending)
		point(&c.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	}
}

// templateGeneration is the annotation that counts the changes of a daemon set's template.
const templateGeneration = "deprecated.daemonset.template.generation"

func fillDaemonSet(d *appsv1.DaemonSet) {
	if _, counted := d.Annotations[templateGeneration]; !counted { // Complete counts
		d.Annotations = maps.Clone(d.Annotations)
		if d.Annotations == nil {
			d.Annotations = map[string]string{}
		}
		d.Annotations[templateGeneration] = "0"
	}
	fillPodSpec(&d.Spec.Template.Spec)
	point(&d.Spec.RevisionHistoryLimit, 10)
	update := &d.Spec.UpdateStrategy
	set(&update.Type, appsv1.RollingUpdateDaemonSetStrategyType)
	if update.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		point(&update.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
		point(&update.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
	}
	if update.RollingUpdate != nil {
		point(&update.RollingUpdate.MaxSurge, intstr.FromInt32(0))
	}
}

func fillJob(j *batchv1.Job) {
	fillJobSpec(&j.Spec)
	s := &j.Spec
	if s.Completions == nil && s.Parallelism == nil {
		point(&s.Completions, 1)
	}
	point(&s.Parallelism, 1)
	if s.BackoffLimitPerIndex != nil {
		point(&s.BackoffLimit, math.MaxInt32)
	}
	point(&s.BackoffLimit, 6)
	if len(j.Labels) == 0 {
		j.Labels = maps.Clone(s.Template.Labels)
	}
	point(&s.CompletionMode, batchv1.NonIndexedCompletion)
	point(&s.Suspend, false)
	point(&s.ManualSelector, false)
	if s.PodFailurePolicy != nil {
		point(&s.PodReplacementPolicy, batchv1.Failed)
	}
	point(&s.PodReplacementPolicy, batchv1.TerminatingOrFailed)
}

// fillJobSpec applies the defaults of a job, also for the jobs of cron jobs.
func fillJobSpec(s *batchv1.JobSpec) {
	fillPodSpec(&s.Template.Spec)
	if s.PodFailurePolicy == nil {
		return
	}
	for i := range s.PodFailurePolicy.Rules {
		patterns := s.PodFailurePolicy.Rules[i].OnPodConditions
		for j := range patterns {
			set(&patterns[j].Status, corev1.ConditionTrue)
		}
	}
}

func fillCronJob(c *batchv1.CronJob) {
	fillJobSpec(&c.Spec.JobTemplate.Spec)
	set(&c.Spec.ConcurrencyPolicy, batchv1.AllowConcurrent)
	point(&c.Spec.Suspend, false)
	point(&c.Spec.SuccessfulJobsHistoryLimit, 3)
	point(&c.Spec.FailedJobsHistoryLimit, 1)
}

func fillAutoscaler(a *autoscalingv2.HorizontalPodAutoscaler) {
	point(&a.Spec.MinReplicas, 1)
	if len(a.Spec.Metrics) == 0 {
		use := int32(80)
		a.Spec.Metrics = []autoscalingv2.MetricSpec{cpuUse(&use)}
	}
	if b := a.Spec.Behavior; b != nil {
		most, at, none := autoscalingv2.MaxChangePolicySelect, int32(15), int32(0)
		pods := autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: at}
		all := autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: at}
		b.ScaleUp = fillRules(b.ScaleUp, autoscalingv2.HPAScalingRules{
			StabilizationWindowSeconds: &none,
			SelectPolicy:               &most, Policies: []autoscalingv2.HPAScalingPolicy{pods, all},
		})
		b.ScaleDown = fillRules(b.ScaleDown, autoscalingv2.HPAScalingRules{
			SelectPolicy: &most,
			Policies:     []autoscalingv2.HPAScalingPolicy{all},
		})
	}
}

// fillRules fills in missing fields from the usual rules.
func fillRules(said *autoscalingv2.HPAScalingRules, usual autoscalingv2.HPAScalingRules) *autoscalingv2.HPAScalingRules {
	if said == nil {
		return &usual
	}
	if said.SelectPolicy == nil {
		said.SelectPolicy = usual.SelectPolicy
	}
	if said.StabilizationWindowSeconds == nil {
		said.StabilizationWindowSeconds = usual.StabilizationWindowSeconds
	}
	if said.Policies == nil {
		said.Policies = usual.Policies
	}
	return said
}

func fillAutoscalerV1(a *autoscalingv1.HorizontalPodAutoscaler) { point(&a.Spec.MinReplicas, 1) }
