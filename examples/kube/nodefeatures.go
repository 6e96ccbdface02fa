package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kindwright/kindwright/admission"
)

// NodeFeaturesName is the name of the plugin that counts if the feature NodeDeclaredFeatures is on.
const NodeFeaturesName = "NodeDeclaredFeatureValidator"

// The features that an update of a pod can need, as nodes declare them.
const (
	resizesPods = "InPlacePodLevelResourcesVerticalScaling"
	resizesInit = "InPlacePodVerticalScalingInitContainers"
)

// nodeFeatures rejects updates of pods that their node does not declare to be able to follow.
func nodeFeatures() admission.Plugin {
	return admission.Plugin{
		Name: NodeFeaturesName, Rules: []admission.Rule{onCore(admission.Update, "pods", "pods/resize")},
		Validator: admission.ValidatorFunc(func(ctx context.Context, r *admission.Request) error {
			name := word(at(r.Object, "spec", "nodeName"))
			if name == "" || number(at(r.Object, "metadata", "generation")) == number(at(r.OldObject, "metadata", "generation")) {
				return nil
			}
			now, err := decode[corev1.Pod](r.Object)
			if err != nil {
				return err
			}
			before, err := decode[corev1.Pod](r.OldObject)
			if err != nil {
				return err
			}
			needed := featuresOfUpdate(before, now)
			if len(needed) == 0 {
				return nil
			}
			n, err := nodeNamed(ctx, r, name)
			switch {
			case err != nil:
				return refused(r, fmt.Sprintf("failed to get node %q: %v", name, err))
			case n == nil:
				return refused(r, fmt.Sprintf("node %q not found", name))
			}
			declared := list(at(n, "status", "declaredFeatures"))
			needed = slices.DeleteFunc(needed, func(f string) bool { return slices.Contains(declared, any(f)) })
			if len(needed) == 0 {
				return nil
			}
			return refused(r, fmt.Sprintf("pod update requires features %s which are not available on node %q", strings.Join(needed, ", "), name))
		}),
	}
}

// featuresOfUpdate are the features that the node of a pod needs for an update, in alphabetical order.
func featuresOfUpdate(before, now *corev1.Pod) (needed []string) {
	if (before.Spec.Resources != nil || now.Spec.Resources != nil) && !equality.Semantic.DeepEqual(before.Spec.Resources, now.Spec.Resources) {
		needed = append(needed, resizesPods)
	}
	for i, c := range before.Spec.InitContainers {
		sidecar := c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		if !sidecar && i < len(now.Spec.InitContainers) && !equality.Semantic.DeepEqual(c.Resources, now.Spec.InitContainers[i].Resources) {
			return append(needed, resizesInit)
		}
	}
	return needed
}
