package kube

import (
	"net"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/openapi"
)

func hostPort(ip, port string) string { return net.JoinHostPort(ip, port) }

func nodeColumns() []openapi.Column {
	address := func(kind string) func(v []any) any {
		return func(v []any) any {
			for _, a := range list(v[0]) {
				if at(a, "type") == kind {
					return word(at(a, "address"))
				}
			}
			return "<none>"
		}
	}
	version := text("Version", "status.nodeInfo.kubeletVersion", "The version of the kubelet.")
	return []openapi.Column{
		named(),
		made("Status", "Whether the node is ready, and takes pods.", nodeState, "status.conditions", "spec.unschedulable"),
		made("Roles", "The roles of the node, from its labels.", nodeRoles, "metadata.labels"),
		aged(), version,
		wide(made("Internal-IP", "The address inside the cluster.", address("InternalIP"), "status.addresses")),
		wide(made("External-IP", "The address outside of it.", address("ExternalIP"), "status.addresses")),
		wide(or("OS-Image", "status.nodeInfo.osImage", "<unknown>", "The operating system.")),
		wide(made("Kernel-Version", "The version of the kernel, and for which machine.", kernel, "status.nodeInfo")),
		wide(or("Container-Runtime", "status.nodeInfo.containerRuntimeVersion", "<unknown>", "What runs containers.")),
	}
}

func nodeState(v []any) any {
	state := "Unknown"
	if ready := condition(v[0], "Ready"); ready != nil {
		state = "NotReady"
		if at(ready, "status") == "True" {
			state = "Ready"
		}
	}
	if v[1] == true {
		state += ",SchedulingDisabled"
	}
	return state
}

func nodeRoles(v []any) any {
	labels, _ := v[0].(map[string]any)
	var roles []string
	for name, value := range labels {
		if role, is := strings.CutPrefix(name, "node-role.kubernetes.io/"); is && role != "" {
			roles = append(roles, role)
		}
		if name == "kubernetes.io/role" && word(value) != "" {
			roles = append(roles, word(value))
		}
	}
	if len(roles) == 0 {
		return "<none>"
	}
	slices.Sort(roles)
	return strings.Join(slices.Compact(roles), ",")
}

func kernel(v []any) any {
	version := word(at(v[0], "kernelVersion"))
	if version == "" {
		version = "<unknown>"
	}
	if machine := word(at(v[0], "architecture")); machine != "" {
		version += " (" + machine + ")"
	}
	return version
}
