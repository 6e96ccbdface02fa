package kube

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kindwright/kindwright/status"
)

// figure is a number of a status.
type figure struct {
	name string
	n    int64
}

// numberOf is a number that a status need not have.
func numberOf(name string, n *int32) figure {
	if n == nil {
		return figure{name, 0}
	}
	return figure{name, int64(*n)}
}

// checkCounts reports numbers below zero, and numbers of pods that are greater than that of all pods.
func checkCounts(at status.Field, all int32, others []figure, parts ...figure) {
	notNegative(at.Child("replicas"), &all)
	for _, c := range append(others, parts...) {
		notNegative(at.Child(c.name), &c.n)
	}
	for _, c := range parts {
		if c.n > int64(all) {
			at.Child(c.name).Invalid(c.n, "cannot be greater than status.replicas")
		}
	}
}

// checkAvailable reports more pods that are available than are ready. The ready ones have this name.
func checkAvailable(at status.Field, available, ready int32, name string) {
	if available > ready {
		at.Child("availableReplicas").Invalid(available, "cannot be greater than "+name)
	}
}

// checkCollisions reports a number of collisions that becomes smaller.
func checkCollisions(at status.Field, now, before *int32) {
	was, is := numberOf("", before), numberOf("collisionCount", now)
	if before != nil && (now == nil || is.n < was.n) {
		at.Child(is.name).Invalid(is.n, "cannot be decremented")
	}
}

func checkDeploymentStatus(d, old *appsv1.Deployment, f *status.Fields) {
	s, at := &d.Status, f.At("status")
	checkCounts(at, s.Replicas,
		[]figure{{"observedGeneration", s.ObservedGeneration}, {"unavailableReplicas", int64(s.UnavailableReplicas)}, numberOf("terminatingReplicas", s.TerminatingReplicas), numberOf("collisionCount", s.CollisionCount)},
		figure{"updatedReplicas", int64(s.UpdatedReplicas)}, figure{"readyReplicas", int64(s.ReadyReplicas)}, figure{"availableReplicas", int64(s.AvailableReplicas)})
	checkAvailable(at, s.AvailableReplicas, s.ReadyReplicas, "readyReplicas")
	checkCollisions(at, s.CollisionCount, old.Status.CollisionCount)
}

func checkReplicaSetStatus(r, _ *appsv1.ReplicaSet, f *status.Fields) {
	s, at := &r.Status, f.At("status")
	checkCounts(at, s.Replicas, []figure{{"observedGeneration", s.ObservedGeneration}, numberOf("terminatingReplicas", s.TerminatingReplicas)},
		figure{"fullyLabeledReplicas", int64(s.FullyLabeledReplicas)}, figure{"readyReplicas", int64(s.ReadyReplicas)}, figure{"availableReplicas", int64(s.AvailableReplicas)})
	checkAvailable(at, s.AvailableReplicas, s.ReadyReplicas, "readyReplicas")
}

func checkReplicationControllerStatus(rc, _ *corev1.ReplicationController, f *status.Fields) {
	s, at := &rc.Status, f.At("status")
	checkCounts(at, s.Replicas, []figure{{"observedGeneration", s.ObservedGeneration}},
		figure{"fullyLabeledReplicas", int64(s.FullyLabeledReplicas)}, figure{"readyReplicas", int64(s.ReadyReplicas)}, figure{"availableReplicas", int64(s.AvailableReplicas)})
	checkAvailable(at, s.AvailableReplicas, s.ReadyReplicas, "readyReplicas")
}

func checkStatefulSetStatus(set, old *appsv1.StatefulSet, f *status.Fields) {
	s, at := &set.Status, f.At("status")
	checkCounts(at, s.Replicas, []figure{{"observedGeneration", s.ObservedGeneration}, numberOf("collisionCount", s.CollisionCount)},
		figure{"readyReplicas", int64(s.ReadyReplicas)}, figure{"currentReplicas", int64(s.CurrentReplicas)},
		figure{"updatedReplicas", int64(s.UpdatedReplicas)}, figure{"availableReplicas", int64(s.AvailableReplicas)})
	checkAvailable(at, s.AvailableReplicas, s.ReadyReplicas, "status.readyReplicas")
	checkCollisions(at, s.CollisionCount, old.Status.CollisionCount)
}

func checkDaemonSetStatus(d, old *appsv1.DaemonSet, f *status.Fields) {
	s, at := &d.Status, f.At("status")
	for _, c := range []figure{
		{"currentNumberScheduled", int64(s.CurrentNumberScheduled)},
		{"numberMisscheduled", int64(s.NumberMisscheduled)},
		{"desiredNumberScheduled", int64(s.DesiredNumberScheduled)},
		{"numberReady", int64(s.NumberReady)},
		{"observedGeneration", s.ObservedGeneration},
		{"updatedNumberScheduled", int64(s.UpdatedNumberScheduled)},
		{"numberAvailable", int64(s.NumberAvailable)},
		{"numberUnavailable", int64(s.NumberUnavailable)},
		numberOf("collisionCount", s.CollisionCount),
	} {
		notNegative(at.Child(c.name), &c.n)
	}
	checkCollisions(at, s.CollisionCount, old.Status.CollisionCount)
}
