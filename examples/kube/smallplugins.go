package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// TopologyLabelsName is the name of the plugin that counts if the feature PodTopologyLabelsAdmission is on.
const TopologyLabelsName = "PodTopologyLabels"

// The names of plugins that need no explanation beside that of the functions that return them.
const (
	claimResizeName  = "PersistentVolumeClaimResize"
	resizeName       = "PodResizeValidator"
	alwaysPullName   = "AlwaysPullImages"
	externalIPsName  = "DenyServiceExternalIPs"
	tolerateName     = "ExtendedResourceToleration"
	antiAffinityName = "LimitPodHardAntiAffinityTopology"
)

// onCore is a rule for objects of the core group.
func onCore(o admission.Operation, resources ...string) admission.Rule {
	return admission.Rule{Operations: []admission.Operation{o}, Groups: []string{""}, Resources: resources}
}

// claimResize lets claims grow that are bound, and whose class says that they may.
func claimResize() admission.Plugin {
	return admission.Plugin{Name: claimResizeName, Rules: []admission.Rule{onCore(admission.Update, "persistentvolumeclaims")}, Validator: admission.ValidatorFunc(func(ctx context.Context, r *admission.Request) error {
		size := func(claim any) resource.Quantity {
			q, err := resource.ParseQuantity(word(at(claim, "spec", "resources", "requests", "storage")))
			if err != nil {
				return resource.Quantity{} // which the kind rejects
			}
			return q
		}
		now, before := size(r.Object), size(r.OldObject)
		switch {
		case now.Cmp(before) <= 0:
			return nil
		case word(at(r.OldObject, "status", "phase")) != string(corev1.ClaimBound):
			return refused(r, "Only bound persistent volume claims can be expanded")
		}
		class := storageClassOf(r.Object)
		if class != "" && class == storageClassOf(r.OldObject) && r.Server != nil {
			of := meta.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"}
			if c, err := r.Server.Get(ctx, of, "", class); err == nil && at(c, "allowVolumeExpansion") == true {
				return nil
			}
		}
		return refused(r, "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize")
	})}
}

func storageClassOf(claim any) string {
	if old, ok := at(claim, "metadata", "annotations", corev1.BetaStorageClassAnnotation).(string); ok {
		return old
	}
	return word(at(claim, "spec", "storageClassName"))
}

// nodeNamed reads a node; nil if there is none.
func nodeNamed(ctx context.Context, r *admission.Request, name string) (map[string]any, error) {
	if r.Server == nil || name == "" {
		return nil, nil
	}
	n, err := r.Server.Get(ctx, meta.GroupVersionResource{Version: "v1", Resource: "nodes"}, "", name)
	if status.IsNotFound(err) {
		return nil, nil
	}
	return n, err
}

// topologyLabels gives pods the labels of their node that say where it is.
func topologyLabels() admission.Plugin {
	return admission.Plugin{Name: TopologyLabelsName, Rules: []admission.Rule{onCore(admission.Create, "pods", "pods/binding")}, Mutator: admission.MutatorFunc(func(ctx context.Context, r *admission.Request) (map[string]any, error) {
		name := word(at(r.Object, "spec", "nodeName"))
		if r.Subresource == "binding" {
			name = ""
			if word(at(r.Object, "target", "kind")) == "Node" {
				name = word(at(r.Object, "target", "name"))
			}
		}
		n, err := nodeNamed(ctx, r, name)
		if err != nil {
			return nil, err
		}
		var edits []admission.Edit
		for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
			if value, ok := at(n, "metadata", "labels", key).(string); ok {
				edits = append(edits, admission.Set(value, "metadata", "labels", key))
			}
		}
		return admission.Patched(r, edits...)
	})}
}

// podResizes rejects resizes that the node of a pod can never follow.
func podResizes() admission.Plugin {
	return admission.Plugin{Name: resizeName, Rules: []admission.Rule{onCore(admission.Update, "pods/resize")}, Validator: admission.ValidatorFunc(func(ctx context.Context, r *admission.Request) error {
		name := word(at(r.Object, "spec", "nodeName"))
		if name == "" || number(at(r.Object, "metadata", "generation")) == number(at(r.OldObject, "metadata", "generation")) {
			return nil
		}
		object, err := nodeNamed(ctx, r, name)
		switch {
		case err != nil:
			return err
		case object == nil:
			return refused(r, fmt.Sprintf("node %q not found", name))
		}
		n, err := decode[corev1.Node](object)
		if err != nil {
			return err
		}
		p, err := decode[corev1.Pod](r.Object)
		if err != nil {
			return err
		}
		return fitsNode(r, p, n)
	})}
}

func fitsNode(r *admission.Request, p *corev1.Pod, n *corev1.Node) error {
	if system, has := n.Labels[corev1.LabelOSStable]; has && system != "linux" {
		return refused(r, fmt.Sprintf("pod resize is only supported on linux nodes, node %q is %q", n.Name, system)).
			WithCauses(meta.StatusCause{Type: "UnsupportedPlatform"})
	}
	requests := podTotal(p, false, false)
	addAmounts(requests, p.Spec.Overhead)
	var wrong []string
	cpu, all := requests[corev1.ResourceCPU], n.Status.Allocatable[corev1.ResourceCPU]
	if cpu.Cmp(all) > 0 {
		wrong = append(wrong, fmt.Sprintf("cpu, requested: %d, allocatable: %d", cpu.MilliValue(), all.MilliValue()))
	}
	memory, all := requests[corev1.ResourceMemory], n.Status.Allocatable[corev1.ResourceMemory]
	if memory.Cmp(all) > 0 {
		wrong = append(wrong, fmt.Sprintf("memory, requested: %d, allocatable: %d", memory.Value(), all.Value()))
	}
	if len(wrong) == 0 {
		return nil
	}
	return refused(r, "node didn't have enough allocatable resources: "+strings.Join(wrong, "; ")).
		WithCauses(meta.StatusCause{Type: "NodeCapacity"})
}

// containerFields are the lists of containers in the spec of a pod.
func containerFields() []string {
	return []string{"initContainers", "containers", "ephemeralContainers"}
}

// alwaysPull has the images of all pods pulled, so that a pod needs the right to its image.
func alwaysPull() admission.Plugin {
	always := string(corev1.PullAlways)
	return admission.Plugin{
		Name: alwaysPullName, Rules: []admission.Rule{onCore(admission.Create, "pods"), onCore(admission.Update, "pods")},
		Mutator: admission.MutatorFunc(func(_ context.Context, r *admission.Request) (map[string]any, error) {
			if keepsImages(r) {
				return r.Object, nil
			}
			var edits []admission.Edit
			for _, field := range containerFields() {
				if all := slices.Clone(list(at(r.Object, "spec", field))); len(all) > 0 {
					for i, c := range all {
						all[i] = with(c, "imagePullPolicy", always)
					}
					edits = append(edits, admission.Set(all, "spec", field))
				}
			}
			if all := slices.Clone(list(at(r.Object, "spec", "volumes"))); slices.ContainsFunc(all, isImage) {
				for i, v := range all {
					if isImage(v) {
						all[i] = with(v, "image", with(at(v, "image"), "pullPolicy", always))
					}
				}
				edits = append(edits, admission.Set(all, "spec", "volumes"))
			}
			return admission.Patched(r, edits...)
		}),
		Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
			if keepsImages(r) {
				return nil
			}
			wrong := func(field string, i int, rest string, v any) error {
				return refused(r, fmt.Sprintf("spec.%s[%d].%s: Unsupported value: %q: supported values: %q", field, i, rest, word(v), always))
			}
			for _, field := range containerFields() {
				for i, c := range list(at(r.Object, "spec", field)) {
					if v := at(c, "imagePullPolicy"); v != always {
						return wrong(field, i, "imagePullPolicy", v)
					}
				}
			}
			for i, v := range list(at(r.Object, "spec", "volumes")) {
				if policy := at(v, "image", "pullPolicy"); isImage(v) && policy != always {
					return wrong("volumes", i, "image.pullPolicy", policy)
				}
			}
			return nil
		}),
	}
}

func isImage(volume any) bool { return at(volume, "image") != nil }

// keepsImages reports whether a write is an update of a pod without new images.
func keepsImages(r *admission.Request) bool {
	if r.Operation != admission.Update {
		return false
	}
	var now, had []string
	for _, field := range containerFields() {
		now = append(now, words(at(r.Object, "spec", field), "image")...)
		had = append(had, words(at(r.OldObject, "spec", field), "image")...)
	}
	return !addsTo(had, now)
}

// addsTo reports whether one of now is none of had.
func addsTo(had, now []string) bool {
	known := setOf(had)
	return slices.ContainsFunc(now, func(s string) bool { return !known[s] })
}

// externalIPs rejects services with new external addresses: they could take over the traffic of others.
func externalIPs() admission.Plugin {
	return admission.Plugin{Name: externalIPsName, Rules: []admission.Rule{onCore(admission.Create, "services"), onCore(admission.Update, "services")}, Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
		if addsTo(words(at(r.OldObject, "spec", "externalIPs")), words(at(r.Object, "spec", "externalIPs"))) {
			return refused(r, "Use of external IPs is denied by admission control")
		}
		return nil
	})}
}

// tolerateDevices lets pods that request extended resources run on nodes that are kept for such pods.
func tolerateDevices() admission.Plugin {
	return admission.Plugin{Name: tolerateName, Rules: []admission.Rule{onCore(admission.Create, "pods")}, Mutator: admission.MutatorFunc(func(_ context.Context, r *admission.Request) (map[string]any, error) {
		var names []string
		for _, field := range []string{"initContainers", "containers"} {
			for _, c := range list(at(r.Object, "spec", field)) {
				requests, _ := at(c, "resources", "requests").(map[string]any)
				for name := range requests {
					if isExtended(name) && !strings.HasPrefix(name, requestsPrefix) {
						names = append(names, name)
					}
				}
			}
		}
		if len(names) == 0 {
			return r.Object, nil
		}
		slices.Sort(names)
		const exists, effect = string(corev1.TolerationOpExists), string(corev1.TaintEffectNoSchedule)
		all, tolerated := slices.Clone(list(at(r.Object, "spec", "tolerations"))), map[string]bool{}
		for _, t := range all {
			if word(at(t, "operator")) == exists && word(at(t, "effect")) == effect {
				tolerated[word(at(t, "key"))] = true
			}
		}
		for _, name := range slices.Compact(names) {
			if !tolerated[name] {
				all = append(all, map[string]any{"key": name, "operator": exists, "effect": effect})
			}
		}
		return admission.Patched(r, admission.Set(all, "spec", "tolerations"))
	})}
}

// antiAffinity rejects pods that keep others away from more than one node.
func antiAffinity() admission.Plugin {
	return admission.Plugin{Name: antiAffinityName, Rules: []admission.Rule{onCore(admission.Create, "pods"), onCore(admission.Update, "pods")}, Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
		for _, term := range list(at(r.Object, "spec", "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution")) {
			if key := word(at(term, "topologyKey")); key != corev1.LabelHostname {
				return status.Forbidden(r.GroupResource(), word(at(r.Object, "metadata", "name")),
					fmt.Sprintf("affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey %v but only key %v is allowed", key, corev1.LabelHostname))
			}
		}
		return nil
	})}
}
