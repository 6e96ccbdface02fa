package kube

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
)

// podContainers is the path of the containers in a pod template.
const podContainers = "spec.template.spec.containers"

// apps are the kinds of the group of that name.
func apps(c *cluster) []registry.Definition {
	return []registry.Definition{
		kind[appsv1.Deployment]{cluster: c, statusKeeps: []string{"labels"}, Kind: registry.Kind[appsv1.Deployment]{
			Rules: registry.Rules[appsv1.Deployment]{
				Validate:       checked(c.checkDeployment),
				ValidateUpdate: byPath(checkDeploymentStatus, checkDeploymentUpdate),
			},

			Group: "apps", Version: "v1", Plural: "deployments", Names: registry.Names{ShortNames: []string{"deploy"}, Categories: []string{"all"}}, Writes: registry.WriteRules{CountAnnotations: true},
			Subresources: []registry.Endpoint{scaled(selectorText)}, Deletion: registry.Deletion{Turn: workloads},
			Table: registry.Table{Columns: columns(append([]openapi.Column{
				readyColumn(),
				whole("Up-to-date", "status.updatedReplicas", "How many pods are made from the present template."),
				whole("Available", "status.availableReplicas", "How many have been ready for long enough."),
			}, templateColumns(podContainers, selectorColumn("spec.selector"))...)...)},
		}, fill: fillDeployment},
		kind[appsv1.ReplicaSet]{
			cluster: c,
			Kind: registry.Kind[appsv1.ReplicaSet]{
				Rules: registry.Rules[appsv1.ReplicaSet]{
					Validate:       checked(c.checkReplicaSet),
					ValidateUpdate: byPath(checkReplicaSetStatus, checkReplicaSetUpdate),
				},

				Group: "apps", Version: "v1", Plural: "replicasets", Names: registry.Names{ShortNames: []string{"rs"}, Categories: []string{"all"}},
				Subresources: []registry.Endpoint{scaled(selectorText)}, Deletion: registry.Deletion{Turn: workloads},
				Table: registry.Table{Columns: columns(append(replicaColumns(), templateColumns(podContainers, selectorColumn("spec.selector"))...)...)},
			},
			fill: fillReplicaSet,
		},
		kind[appsv1.StatefulSet]{cluster: c, Kind: registry.Kind[appsv1.StatefulSet]{
			Rules: registry.Rules[appsv1.StatefulSet]{
				Validate: checked(c.checkStatefulSet), ValidateCreate: checked(checkNewStatefulSet), Name: meta.CheckDNSLabel,
				ValidateUpdate: byPath(checkStatefulSetStatus, checkStatefulSetUpdate),
			},

			Group: "apps", Version: "v1", Plural: "statefulsets", Names: registry.Names{ShortNames: []string{"sts"}, Categories: []string{"all"}},
			Subresources: []registry.Endpoint{scaled(selectorText)}, Deletion: registry.Deletion{Turn: workloads},
			Table: registry.Table{Columns: columns(append([]openapi.Column{readyColumn()}, templateColumns(podContainers)...)...)},
		}, fill: fillStatefulSet},
		kind[appsv1.DaemonSet]{cluster: c, Kind: registry.Kind[appsv1.DaemonSet]{
			Rules: registry.Rules[appsv1.DaemonSet]{
				Complete:       c.completeDaemonSet,
				Validate:       checked(c.checkDaemonSet),
				ValidateUpdate: byPath(checkDaemonSetStatus, checkDaemonSetUpdate),
			},

			Group: "apps", Version: "v1", Plural: "daemonsets", Names: registry.Names{ShortNames: []string{"ds"}, Categories: []string{"all"}}, Deletion: registry.Deletion{Turn: workloads},
			Table: registry.Table{Columns: columns(append([]openapi.Column{
				whole("Desired", "status.desiredNumberScheduled", "On how many nodes there should be a pod."),
				whole("Current", "status.currentNumberScheduled", "On how many of them there is one."),
				whole("Ready", "status.numberReady", "On how many it is ready."),
				whole("Up-to-date", "status.updatedNumberScheduled", "On how many it is made from the present template."),
				whole("Available", "status.numberAvailable", "On how many it has been ready for long enough."),
				made("Node Selector", "Which nodes should have one.", func(v []any) any { return labelText(v[0]) }, "spec.template.spec.nodeSelector"),
			}, templateColumns(podContainers, selectorColumn("spec.selector"))...)...)},
		}, fill: fillDaemonSet},
		kind[appsv1.ControllerRevision]{cluster: c, Kind: registry.Kind[appsv1.ControllerRevision]{
			Rules: registry.Rules[appsv1.ControllerRevision]{Validate: checked(checkRevision), ValidateUpdate: updated(checkRevisionUpdate)},

			Group: "apps", Version: "v1", Plural: "controllerrevisions", Writes: registry.WriteRules{NoGeneration: true},
			Table: registry.Table{Columns: columns(
				made("Controller", "Whose template it was.", controllerName, "metadata.ownerReferences"),
				made("Revision", "Which one it was.", func(v []any) any { return number(v[0]) }, "revision"),
			)},
		}},
	}
}

func readyColumn() openapi.Column {
	return made("Ready", "How many pods are ready, of how many there should be.", func(v []any) any {
		return fmt.Sprintf("%d/%d", number(v[0]), number(v[1]))
	}, "status.readyReplicas", "spec.replicas")
}

// controllerName returns the name of the controlling owner.
func controllerName(v []any) any {
	for _, o := range list(v[0]) {
		if at(o, "controller") != true {
			continue
		}
		kind := strings.ToLower(word(at(o, "kind")))
		if group, _, grouped := strings.Cut(word(at(o, "apiVersion")), "/"); grouped {
			kind += "." + group
		}
		return kind + "/" + word(at(o, "name"))
	}
	return "<none>"
}
