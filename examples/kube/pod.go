package kube

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// workloads is the Turn of kinds that run in a namespace: they go before the objects that they use.
const workloads = -1

// pods are pods, pod templates, and the core group's kinds that make pods.
func pods(c *cluster) []registry.Definition {
	return []registry.Definition{
		PluginsOf(c.podPlugins()...),
		kind[corev1.Pod]{
			statusKeeps: []string{"ownerReferences"}, // which old kubelets break
			cluster:     c,
			Kind: registry.Kind[corev1.Pod]{
				Rules: registry.Rules[corev1.Pod]{
					Complete: c.completePod, Validate: checked(c.checkPod), ValidateCreate: checked(checkNewPod),
					ValidateUpdate: c.checkPodUpdate, Grace: podGrace,
				},

				Version: "v1", Plural: "pods", Names: registry.Names{ShortNames: []string{"po"}, Categories: []string{"all"}},
				Subresources: podEndpoints(c), Deletion: registry.Deletion{AnswerObject: true, Turn: workloads},
				Table: registry.Table{Columns: podColumns()},
			},
			fill: fillPod, reads: map[string]reading{
				"spec.hostNetwork": truthAt("spec", "hostNetwork"), "status.podIPs": podIPs,
				"spec.host": textAt("spec", "nodeName"), // what old clients call it
			},
			fields: []string{
				"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
				"status.nominatedNodeName", "status.phase", "status.podIP",
			},
		},
		registry.VirtualKind[corev1.Binding]{Version: "v1", Plural: "bindings", Namespaced: true, Run: bindNamed, Acknowledges: true},
		kind[corev1.PodTemplate]{
			cluster: c,
			Kind: registry.Kind[corev1.PodTemplate]{
				Rules: registry.Rules[corev1.PodTemplate]{Validate: checked(func(t *corev1.PodTemplate, f *status.Fields) { c.checkTemplate(&t.Template, f.At("template")) })},

				Version: "v1", Plural: "podtemplates", Deletion: answered(),
				Table: registry.Table{Columns: append([]openapi.Column{named()}, append(containerColumns("template.spec.containers"),
					made("Pod Labels", "The labels of the pods.", func(v []any) any { return labelText(v[0]) },
						"template.metadata.labels"))...)},
			},
			fill: func(t *corev1.PodTemplate) { fillPodSpec(&t.Template.Spec) },
		},
		kind[corev1.ReplicationController]{
			cluster: c,
			Kind: registry.Kind[corev1.ReplicationController]{
				Rules: registry.Rules[corev1.ReplicationController]{
					Validate: checked(c.checkReplicationController), ValidateUpdate: byPath(checkReplicationControllerStatus, nil),
				},

				Version: "v1", Plural: "replicationcontrollers",
				Names:        registry.Names{ShortNames: []string{"rc"}, Categories: []string{"all"}},
				Subresources: []registry.Endpoint{scaled(labelText)},
				Deletion:     registry.Deletion{Policy: meta.DeletePropagationOrphan, Turn: workloads},
				Table: registry.Table{Columns: columns(append(replicaColumns(),
					templateColumns("spec.template.spec.containers", labelColumn("spec.selector"))...)...)},
			},
			fill: fillReplicationController, reads: map[string]reading{"status.replicas": numberAt("status", "replicas")},
		},
	}
}

// podIPs is the field of that name: all addresses in one text.
func podIPs(t registry.Tree) string {
	return strings.Join(words(tree.At(t, "status", "podIPs"), "ip"), ",")
}

// containerColumns are the names and the images of containers.
func containerColumns(path string) []openapi.Column {
	return []openapi.Column{
		made("Containers", "The names of the containers.", func(v []any) any { return strings.Join(words(v[0], "name"), ",") }, path),
		made("Images", "The images of the containers.", func(v []any) any { return strings.Join(words(v[0], "image"), ",") }, path),
	}
}

// templateColumns are the columns of wide tables about the pods of a template.
func templateColumns(path string, more ...openapi.Column) []openapi.Column {
	out := append(containerColumns(path), more...)
	for i := range out {
		out[i] = wide(out[i])
	}
	return out
}

func labelColumn(path string) openapi.Column {
	return made("Selector", "Which pods belong to it.", func(v []any) any { return labelText(v[0]) }, path)
}

func selectorColumn(path string) openapi.Column {
	return made("Selector", "Which pods belong to it.", func(v []any) any { return selectorText(v[0]) }, path)
}

func replicaColumns() []openapi.Column {
	return []openapi.Column{
		whole("Desired", "spec.replicas", "How many pods there should be."),
		whole("Current", "status.replicas", "How many there are."),
		whole("Ready", "status.readyReplicas", "How many of them are ready."),
	}
}
