package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/admission/tolerationseconds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// priorityName is the name of the plugin that gives pods the priority of their class.
const priorityName = "Priority"

var priorityClassResource = meta.GroupVersionResource{
	Group: schedulingv1.GroupName, Version: "v1", Resource: "priorityclasses",
}

// podPlugins are asked before policies and webhooks, which therefore see the values that they set.
func (c *cluster) podPlugins() []admission.Plugin {
	return []admission.Plugin{
		{
			Name: priorityName, Mutator: admission.MutatorFunc(prioritize), Validator: admission.ValidatorFunc(onlyDefaultClass),
			Rules: []admission.Rule{
				onCore(admission.Create, "pods"), onCore(admission.Update, "pods"),
				{Operations: []admission.Operation{admission.Create, admission.Update}, Groups: []string{schedulingv1.GroupName}, Resources: []string{"priorityclasses"}},
			},
		},
		tolerationseconds.Plugin(tolerationseconds.Options{NotReadySeconds: c.NotReadySeconds, UnreachableSeconds: c.UnreachableSeconds}),
	}
}

// The sentences of kube-apiserver for pods that say something else than their class.
const (
	otherPriority = "the integer value of priority (%v) must not be provided in pod spec; " +
		"priority admission controller computed %v from the given PriorityClass name"
	otherPolicy = "the string value of PreemptionPolicy (%v) must not be provided in pod spec; " +
		"priority admission controller computed %v from the given PriorityClass name"
)

// prioritize gives a new pod the priority of its class. A replaced pod keeps its priority, so that a
// client may send again what it created the pod from.
func prioritize(ctx context.Context, r *admission.Request) (map[string]any, error) {
	if r.Resource.Group == schedulingv1.GroupName {
		return admission.Allowed(r)
	}
	if r.OldObject != nil {
		var edits []admission.Edit
		for _, field := range []string{"priority", "preemptionPolicy"} {
			if old := at(r.OldObject, "spec", field); old != nil && at(r.Object, "spec", field) == nil {
				edits = append(edits, admission.Set(old, "spec", field))
			}
		}
		return admission.Patched(r, edits...)
	}
	class, err := priorityClass(ctx, r)
	if err != nil {
		return nil, err
	}
	policy := corev1.PreemptLowerPriority
	if class.PreemptionPolicy != nil {
		policy = *class.PreemptionPolicy
	}
	if own := at(r.Object, "spec", "priority"); own != nil && own != int64(class.Value) {
		return nil, refused(r, fmt.Sprintf(otherPriority, own, class.Value))
	}
	if own := at(r.Object, "spec", "preemptionPolicy"); own != nil && own != string(policy) {
		return nil, refused(r, fmt.Sprintf(otherPolicy, own, policy))
	}
	edits := []admission.Edit{
		admission.Set(int64(class.Value), "spec", "priority"),
		admission.Set(string(policy), "spec", "preemptionPolicy"),
	}
	if class.Name != "" {
		edits = append(edits, admission.Set(class.Name, "spec", "priorityClassName"))
	}
	return admission.Patched(r, edits...)
}

// onlyDefaultClass rejects a second class that is the one of pods without a class.
func onlyDefaultClass(ctx context.Context, r *admission.Request) error {
	if r.Resource.Group != schedulingv1.GroupName || at(r.Object, "globalDefault") != true {
		return nil
	}
	if r.Server == nil {
		return refused(r, errNoServer.Error())
	}
	class, err := defaultPriorityClass(ctx, r)
	if err != nil || class == nil {
		return err
	}
	name := word(at(class, "metadata", "name"))
	if r.OldObject != nil && name == word(at(r.Object, "metadata", "name")) {
		return nil
	}
	return refused(r, "PriorityClass "+name+" is already marked as default. Only one default can exist")
}

// priorityClass returns the class that a pod names, or else the default class. It is empty if there
// is none.
func priorityClass(ctx context.Context, r *admission.Request) (*schedulingv1.PriorityClass, error) {
	name := word(at(r.Object, "spec", "priorityClassName"))
	if r.Server == nil {
		return nil, refused(r, errNoServer.Error())
	}
	if name != "" {
		class, err := r.Server.Get(ctx, priorityClassResource, "", name)
		switch {
		case status.IsNotFound(err):
			return nil, refused(r, "no PriorityClass with name "+name+" was found")
		case err != nil:
			return nil, err
		}
		return decode[schedulingv1.PriorityClass](class)
	}
	found, err := defaultPriorityClass(ctx, r)
	if err != nil {
		return nil, err
	}
	if found == nil {
		return &schedulingv1.PriorityClass{}, nil
	}
	return decode[schedulingv1.PriorityClass](found)
}

// defaultPriorityClass returns the class of pods without a class, or nil. If there are several, because they were created at
// the same time, it is the lowest.
func defaultPriorityClass(ctx context.Context, r *admission.Request) (found map[string]any, err error) {
	for class, err := range r.Server.List(ctx, priorityClassResource, "") {
		if err != nil {
			return nil, err
		}
		if at(class, "globalDefault") == true && (found == nil || number(at(class, "value")) < number(at(found, "value"))) {
			found = class
		}
	}
	return found, nil
}
