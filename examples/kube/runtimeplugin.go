package kube

import (
	"context"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// RuntimeClassName is the name of the plugin that [RuntimeClassPlugin] returns.
const RuntimeClassName = "RuntimeClass"

// RuntimeClassPlugin returns the plugin that gives new pods what their RuntimeClass says: what running
// a pod costs beside its containers, and on which nodes it can run. A pod whose class does not exist, or says
// something else, is rejected.
func RuntimeClassPlugin() admission.Plugin {
	return admission.Plugin{
		Name:      RuntimeClassName,
		Rules:     []admission.Rule{{Operations: []admission.Operation{admission.Create}, Groups: []string{""}, Resources: []string{"pods"}}},
		Mutator:   admission.MutatorFunc(addRuntime),
		Validator: admission.ValidatorFunc(checkRuntime),
	}
}

// runtimeOf returns the class of a pod, nil if it names none.
func runtimeOf(ctx context.Context, r *admission.Request) (*nodev1.RuntimeClass, error) {
	name, _ := at(r.Object, "spec", "runtimeClassName").(string) // an empty one is no name, which is for the kind to say
	switch {
	case name == "":
		return nil, nil
	case r.Server == nil:
		return nil, refused(r, errNoServer.Error())
	}
	class, err := r.Server.Get(ctx, meta.GroupVersionResource{Group: nodev1.GroupName, Version: "v1", Resource: "runtimeclasses"}, "", name)
	switch {
	case status.IsNotFound(err):
		return nil, refused(r, fmt.Sprintf("pod rejected: RuntimeClass %q not found", name))
	case err != nil:
		return nil, err
	}
	return decode[nodev1.RuntimeClass](class)
}

const otherOverhead = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"

func addRuntime(ctx context.Context, r *admission.Request) (map[string]any, error) {
	class, err := runtimeOf(ctx, r)
	if err != nil || class == nil || class.Overhead == nil && class.Scheduling == nil {
		return r.Object, err
	}
	return admission.TypedMutator(func(_ context.Context, r *admission.Request, p *corev1.Pod) error {
		if o := class.Overhead; o != nil {
			if len(p.Spec.Overhead) > 0 && !equality.Semantic.DeepEqual(o.PodFixed, p.Spec.Overhead) {
				return refused(r, otherOverhead)
			}
			p.Spec.Overhead = o.PodFixed
		}
		s := class.Scheduling
		if s == nil {
			return nil
		}
		for _, key := range sortedNames(s.NodeSelector) {
			value := s.NodeSelector[key]
			if own, has := p.Spec.NodeSelector[key]; has && own != value {
				return refused(r, fmt.Sprintf("conflict: runtimeClass.scheduling.nodeSelector[%s] = %s; pod.spec.nodeSelector[%s] = %s", key, value, key, own))
			}
			if p.Spec.NodeSelector == nil {
				p.Spec.NodeSelector = map[string]string{}
			}
			p.Spec.NodeSelector[key] = value
		}
		p.Spec.Tolerations = united(p.Spec.Tolerations, s.Tolerations)
		return nil
	}).Mutate(ctx, r)
}

// united returns the tolerations of two lists without those that another one covers.
func united(first, second []corev1.Toleration) (out []corev1.Toleration) {
	all := append(first[:len(first):len(first)], second...)
next:
	for i, t := range all {
		for j, other := range all {
			same := sameToleration(t, other)
			if j != i && (same && j < i || !same && covers(other, t)) {
				continue next
			}
		}
		out = append(out, t)
	}
	return out
}

func sameToleration(a, b corev1.Toleration) bool { return reflect.DeepEqual(a, b) }

// covers reports whether one toleration tolerates all that another one does, as Kubernetes sees it: one
// without an operator covers one that says Equal, and not the other way round.
func covers(more, t corev1.Toleration) bool {
	exists := more.Operator == corev1.TolerationOpExists
	switch {
	case more.Key != t.Key && (more.Key != "" || !exists), more.Effect != t.Effect && more.Effect != "":
		return false
	case more.TolerationSeconds != nil && (t.TolerationSeconds == nil || *t.TolerationSeconds > *more.TolerationSeconds):
		return false
	}
	equal := more.Operator == corev1.TolerationOpEqual || more.Operator == ""
	return exists || equal && t.Operator == corev1.TolerationOpEqual && more.Value == t.Value
}

func checkRuntime(ctx context.Context, r *admission.Request) error {
	class, err := runtimeOf(ctx, r)
	if err != nil {
		return err
	}
	overhead := at(r.Object, "spec", "overhead")
	if class == nil || class.Overhead == nil {
		if overhead != nil {
			return refused(r, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
		}
		return nil
	}
	p, err := decode[corev1.Pod](r.Object)
	if err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(class.Overhead.PodFixed, p.Spec.Overhead) {
		return refused(r, otherOverhead)
	}
	return nil
}
