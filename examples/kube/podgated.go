package kube

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The gates of fields of pods that Kubernetes 1.36 does not have by default.
const (
	gateStopSignals     = "ContainerStopSignals"
	gateWorkloads       = "GenericWorkload"
	gateBundleFiles     = "ClusterTrustBundleProjection"
	gatePodCertificates = "PodCertificateRequest"
	gateMaxUnavailable  = "MaxUnavailableStatefulSet"
)

// gateCoordination is the gate of fields of leases.
const gateCoordination = "CoordinatedLeaderElection"

// The gates of fields of volumes, claims and drivers that are off by default, and of what may change in a volume.
const (
	gateForeignSources   = "CrossNamespaceVolumeDataSource"
	gateVolumeLimits     = "VolumeLimitScaling"
	gateMutableLocations = "MutablePVNodeAffinity"
)

// The gates of what may change in a suspended job. They are on by default.
const (
	gateSuspendedResources = "MutablePodResourcesForSuspendedJobs"
	gateSuspendedPlaces    = "MutableSchedulingDirectivesForSuspendedJobs"
)

// gateForgetsNomination is the gate of what a binding takes from a pod. It is on by default.
const gateForgetsNomination = "ClearingNominatedNodeNameAfterBinding"

// off reports whether a feature is off that is on by default.
func (c *cluster) off(gate string) bool { return c.FeaturesOff != nil && c.FeaturesOff(gate) }

// The gates of kinds that have options of their own.
const (
	gateTrustBundles = "ClusterTrustBundle"
	gateMigrations   = "StorageVersionMigrator"
)

// has reports whether a feature is on that is off by default.
func (c *cluster) has(gate string) bool {
	switch gate {
	case gateTrustBundles:
		return c.TrustBundles
	case gateMigrations:
		return c.StorageMigrations
	}
	return c.Features != nil && c.Features(gate)
}

// A podSource is where an object has pods: itself, or a template.
type podSource struct {
	metadata *metav1.ObjectMeta
	spec     *corev1.PodSpec
	path     []string // of the pod
}

// podsOf returns where an object has pods. Most objects have none.
func podsOf(object any) (podSource, bool) {
	var t *corev1.PodTemplateSpec
	path := []string{"spec", "template"}
	switch o := object.(type) {
	case *corev1.Pod:
		if o == nil {
			return podSource{}, false
		}
		return podSource{&o.ObjectMeta, &o.Spec, nil}, true
	case *corev1.PodTemplate:
		t, path = templateIn(o, func() *corev1.PodTemplateSpec { return &o.Template }), []string{"template"}
	case *corev1.ReplicationController:
		t = templateIn(o, func() *corev1.PodTemplateSpec { return o.Spec.Template })
	case *appsv1.Deployment:
		t = templateIn(o, func() *corev1.PodTemplateSpec { return &o.Spec.Template })
	case *appsv1.ReplicaSet:
		t = templateIn(o, func() *corev1.PodTemplateSpec { return &o.Spec.Template })
	case *appsv1.StatefulSet:
		t = templateIn(o, func() *corev1.PodTemplateSpec { return &o.Spec.Template })
	case *appsv1.DaemonSet:
		t = templateIn(o, func() *corev1.PodTemplateSpec { return &o.Spec.Template })
	case *batchv1.Job:
		t = templateIn(o, func() *corev1.PodTemplateSpec { return &o.Spec.Template })
	case *batchv1.CronJob:
		t = templateIn(o, func() *corev1.PodTemplateSpec { return &o.Spec.JobTemplate.Spec.Template })
		path = []string{"spec", "jobTemplate", "spec", "template"}
	}
	if t == nil {
		return podSource{}, false
	}
	return podSource{&t.ObjectMeta, &t.Spec, path}, true
}

func templateIn[T any](o *T, of func() *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	if o == nil {
		return nil
	}
	return of()
}

// ungated is a rule Complete that first drops the fields of pods whose features are off, unless the stored object
// uses them already. The kind decides the rest.
func ungated[T any](c *cluster, complete func(context.Context, *T, *T) error) func(context.Context, *T, *T) error {
	return func(ctx context.Context, obj, old *T) error {
		if now, has := podsOf(obj); has {
			before, _ := podsOf(old)
			c.dropGated(now.spec, before.spec)
		}
		c.dropMaxUnavailable(any(obj), any(old))
		if complete == nil {
			return nil
		}
		return complete(ctx, obj, old)
	}
}

// dropMaxUnavailable drops how many pods of a stateful set may be unavailable, unless a stored one says so already.
func (c *cluster) dropMaxUnavailable(obj, old any) {
	now, is := obj.(*appsv1.StatefulSet)
	if !is || c.has(gateMaxUnavailable) || now.Spec.UpdateStrategy.RollingUpdate == nil {
		return
	}
	before, _ := old.(*appsv1.StatefulSet)
	if before == nil || before.Spec.UpdateStrategy.RollingUpdate == nil || before.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable == nil {
		now.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = nil
	}
}

// dropGated drops fields whose features are off. A stored pod keeps those that it has: nothing is lost when a
// feature is switched off.
func (c *cluster) dropGated(s, old *corev1.PodSpec) {
	if old == nil {
		old = &corev1.PodSpec{}
	}
	if !c.has(gateWorkloads) && old.SchedulingGroup == nil {
		s.SchedulingGroup = nil
	}
	if !c.has(gateStopSignals) && !hasStopSignal(old) {
		dropStopSignals(s)
	}
	uses := func(used func(*corev1.VolumeProjection) bool) (found bool) {
		eachProjection(old, func(p *corev1.VolumeProjection) { found = found || used(p) })
		return found
	}
	if !c.has(gateBundleFiles) && !uses(func(p *corev1.VolumeProjection) bool { return p.ClusterTrustBundle != nil }) {
		eachProjection(s, func(p *corev1.VolumeProjection) { p.ClusterTrustBundle = nil })
	}
	if !c.has(gatePodCertificates) && !uses(func(p *corev1.VolumeProjection) bool { return p.PodCertificate != nil }) {
		eachProjection(s, func(p *corev1.VolumeProjection) { p.PodCertificate = nil })
	}
}

func eachProjection(s *corev1.PodSpec, do func(*corev1.VolumeProjection)) {
	for i := range s.Volumes {
		if p := s.Volumes[i].Projected; p != nil {
			for j := range p.Sources {
				do(&p.Sources[j])
			}
		}
	}
}

// lifecycles calls a function with where each container says what it does when it starts and stops.
func lifecycles(s *corev1.PodSpec, do func(**corev1.Lifecycle)) {
	for _, all := range containersOf(s) {
		for i := range all {
			do(&all[i].Lifecycle)
		}
	}
	for i := range s.EphemeralContainers {
		do(&s.EphemeralContainers[i].Lifecycle)
	}
}

func hasStopSignal(s *corev1.PodSpec) (found bool) {
	lifecycles(s, func(l **corev1.Lifecycle) { found = found || *l != nil && (*l).StopSignal != nil })
	return found
}

func dropStopSignals(s *corev1.PodSpec) {
	lifecycles(s, func(l **corev1.Lifecycle) {
		if *l == nil || (*l).StopSignal == nil {
			return
		}
		if (*l).StopSignal = nil; **l == (corev1.Lifecycle{}) {
			*l = nil
		}
	})
}
