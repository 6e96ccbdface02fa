package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// The names of the plugins that keep the pods of a namespace to some nodes.
const (
	PodNodeSelectorName          = "PodNodeSelector"
	PodTolerationRestrictionName = "PodTolerationRestriction"
)

// The annotations of a namespace that these plugins read.
const (
	nodesOfNamespace      = "scheduler.alpha.kubernetes.io/node-selector"
	tolerationsToAdd      = "scheduler.alpha.kubernetes.io/defaultTolerations"
	tolerationsOnly       = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
	selectorOfEveryone    = "clusterDefaultNodeSelector" // in the configuration, among the names of namespaces
	onOtherNodes          = "pod node label selector conflicts with its namespace node label selector"
	onForbiddenNodes      = "pod node label selector labels conflict with its namespace whitelist"
	toleratesTooMuch      = "pod tolerations (possibly merged with namespace default tolerations) conflict with its %s whitelist"
	memoryPressureTainted = corev1.TaintNodeMemoryPressure
)

// Tolerations configure [PodTolerationRestrictionPlugin]: what pods tolerate, and what they may tolerate,
// unless their namespace says so.
type Tolerations struct {
	Default   []corev1.Toleration `json:"default"`
	Whitelist []corev1.Toleration `json:"whitelist"`
}

// Check returns what is wrong with the configuration.
func (t Tolerations) Check() error {
	f := &status.Fields{}
	checkTolerations(t.Default, f.At("podtolerationrestriction", "default"))
	checkTolerations(t.Whitelist, f.At("podtolerationrestriction", "whitelist"))
	if all := f.Errors(); len(all) > 0 {
		return fmt.Errorf("invalid config: %v", all)
	}
	return nil
}

// namespaceAnnotations reads the annotations of the namespace of a write.
func namespaceAnnotations(ctx context.Context, r *admission.Request) (map[string]any, error) {
	if r.Server == nil {
		return nil, errNoServer
	}
	n, err := r.Server.Get(ctx, meta.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "", r.Namespace)
	if err != nil {
		return nil, err
	}
	all, _ := at(n, "metadata", "annotations").(map[string]any)
	return all, nil
}

// failed is the answer to a write that a plugin cannot judge, or refuses without saying so, as Kubernetes
// gives it: code 500 and no reason.
func failed(why string) error {
	return status.FromStatus(meta.Status{Status: "Failure", Code: http.StatusInternalServerError, Message: why})
}

// PodNodeSelectorPlugin returns the plugin PodNodeSelector: pods run on the nodes that the annotation
// scheduler.alpha.kubernetes.io/node-selector of their namespace selects. The selectors are those of
// the configuration, by namespace: a pod has no other labels in its selector than these. The one
// called clusterDefaultNodeSelector is for namespaces without the annotation.
func PodNodeSelectorPlugin(selectors map[string]string) admission.Plugin {
	check := func(ctx context.Context, r *admission.Request) (wanted map[string]string, err error) {
		if wanted, err = wantedNodes(ctx, r, selectors[selectorOfEveryone]); err != nil {
			return nil, err
		}
		own := stringMap(at(r.Object, "spec", "nodeSelector"))
		if labels.Conflicts(wanted, own) {
			return nil, status.Forbidden(r.GroupResource(), word(at(r.Object, "metadata", "name")), onOtherNodes)
		}
		return labels.Merge(wanted, own), nil
	}
	return admission.Plugin{
		Name: PodNodeSelectorName, Rules: []admission.Rule{onCore(admission.Create, "pods")},
		Mutator: admission.MutatorFunc(func(ctx context.Context, r *admission.Request) (map[string]any, error) {
			all, err := check(ctx, r)
			if err != nil || len(all) == 0 || maps.Equal(all, stringMap(at(r.Object, "spec", "nodeSelector"))) {
				return r.Object, err
			}
			return admission.Patched(r, admission.Set(all, "spec", "nodeSelector"))
		}),
		Validator: admission.ValidatorFunc(func(ctx context.Context, r *admission.Request) error {
			if _, err := check(ctx, r); err != nil {
				return err
			}
			allowed, err := labels.ConvertSelectorToLabelsMap(selectors[r.Namespace])
			if err != nil {
				return failed(err.Error())
			}
			if len(allowed) == 0 {
				return nil
			}
			for key, value := range stringMap(at(r.Object, "spec", "nodeSelector")) {
				if only, has := allowed[key]; !has || only != value {
					return status.Forbidden(r.GroupResource(), word(at(r.Object, "metadata", "name")), onForbiddenNodes)
				}
			}
			return nil
		}),
	}
}

// wantedNodes are the labels of the nodes that the namespace of a pod keeps to.
func wantedNodes(ctx context.Context, r *admission.Request, otherwise string) (map[string]string, error) {
	annotations, err := namespaceAnnotations(ctx, r)
	if err != nil {
		return nil, err
	}
	if own, has := annotations[nodesOfNamespace].(string); has {
		otherwise = own
	}
	wanted, err := labels.ConvertSelectorToLabelsMap(otherwise)
	if err != nil {
		return nil, failed(err.Error())
	}
	return wanted, nil
}

// stringMap returns the texts of an object.
func stringMap(v any) map[string]string {
	object, _ := v.(map[string]any)
	out := make(map[string]string, len(object))
	for name, value := range object {
		out[name] = word(value)
	}
	return out
}

// PodTolerationRestrictionPlugin returns the plugin PodTolerationRestriction: new pods tolerate what
// the annotations of their namespace add, or the configuration, and pods tolerate nothing that one of
// them does not allow. Pods that ask for something stay on nodes whose memory is short.
func PodTolerationRestrictionPlugin(configured Tolerations) admission.Plugin {
	return admission.Plugin{
		Name: PodTolerationRestrictionName, Rules: []admission.Rule{onCore(admission.Create, "pods"), onCore(admission.Update, "pods")},
		Mutator: admission.TypedMutator(func(ctx context.Context, r *admission.Request, p *corev1.Pod) error {
			var more []corev1.Toleration
			if r.Operation == admission.Create {
				own, has, err := tolerationsIn(ctx, r, tolerationsToAdd)
				if err != nil {
					return err
				}
				if more = own; !has {
					more = configured.Default
				}
			}
			if qualityOf(p) != corev1.PodQOSBestEffort {
				more = append(more[:len(more):len(more)], corev1.Toleration{
					Key: memoryPressureTainted, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule,
				})
			}
			if len(more) > 0 {
				p.Spec.Tolerations = united(p.Spec.Tolerations, more)
			}
			return nil
		}),
		Validator: admission.TypedValidator(func(ctx context.Context, r *admission.Request, p, _ *corev1.Pod) error {
			if len(p.Spec.Tolerations) == 0 {
				return nil
			}
			allowed, has, err := tolerationsIn(ctx, r, tolerationsOnly)
			if err != nil {
				return err
			}
			whose := "namespace"
			if !has {
				allowed, whose = configured.Whitelist, "cluster"
			}
			if len(allowed) > 0 && !allCovered(p.Spec.Tolerations, allowed) {
				return failed(fmt.Sprintf(toleratesTooMuch, whose))
			}
			return nil
		}),
	}
}

// tolerationsIn reads tolerations from an annotation of the namespace of a write. An empty annotation is
// an empty list.
func tolerationsIn(ctx context.Context, r *admission.Request, annotation string) (all []corev1.Toleration, has bool, err error) {
	annotations, err := namespaceAnnotations(ctx, r)
	if err != nil {
		return nil, false, err
	}
	text, has := annotations[annotation].(string)
	if text == "" {
		return nil, has, nil
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, false, failed(err.Error())
	}
	return all, all != nil, nil
}

// allCovered reports whether each toleration is covered by one of a list.
func allCovered(all, by []corev1.Toleration) bool {
next:
	for _, t := range all {
		for _, other := range by {
			if sameToleration(other, t) || covers(other, t) {
				continue next
			}
		}
		return false
	}
	return true
}
