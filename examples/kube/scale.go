package kube

import (
	"github.com/kindwright/kindwright/registry"
)

// scaled is the subresource scale of workloads. Their selector is a structure or a map of labels.
func scaled(selector func(v any) string) registry.Endpoint {
	return registry.ScaleSubresource{
		SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas",
		Selector: func(t registry.Tree) string {
			text := selector(at(t, "spec", "selector"))
			if text == "<none>" || text == "<error>" {
				return ""
			}
			return text
		},
	}
}
