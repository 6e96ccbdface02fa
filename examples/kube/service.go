package kube

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/registry/connect"
	"github.com/kindwright/kindwright/status"
)

// checkServiceName checks the name of a new service, and warns of what else it has. One that an earlier server has accepted stays.
func (c *cluster) checkServiceName(ctx context.Context, s *corev1.Service, f *status.Fields) {
	if why := meta.CheckDNS1035Label(s.Name); why != "" && c.StrictServiceNames && meta.CheckDNSLabel(s.Name) == "" {
		f.At("metadata", "name").Invalid(s.Name, why)
	}
	c.checkServiceAddresses(s, nil, f)
	if f.Len() == 0 {
		warnOfService(ctx, s)
	}
}

// services are services and endpoint slices.
func services(c *cluster) []registry.Definition {
	return []registry.Definition{
		kind[corev1.Service]{
			cluster: c,
			Kind: registry.Kind[corev1.Service]{
				Rules: registry.Rules[corev1.Service]{
					Complete: c.completeService, Validate: checkService,
					ValidateUpdate: func(ctx context.Context, obj, old *corev1.Service, f *status.Fields) {
						if registry.SubresourceFrom(ctx) == "status" {
							c.checkServiceStatus(obj, old, f)
							return
						}
						checkServiceUpdate(obj, old, f)
						c.checkServiceAddresses(obj, old, f)
						if f.Len() == 0 {
							warnOfService(ctx, obj)
						}
					},
					Name: meta.CheckDNSLabel, ValidateCreate: c.checkServiceName,
				},

				Version: "v1", Plural: "services", Names: registry.Names{ShortNames: []string{"svc"}, Categories: []string{"all"}},
				Writes: registry.WriteRules{NoGeneration: true, CreateOnUpdate: true},
				Subresources: []registry.Endpoint{connect.Endpoint[corev1.Service, corev1.ServiceProxyOptions]{
					Name: "proxy", Paths: true, Methods: everyMethod(), Object: objectOf("service"), Serve: c.proxyService,
				}},
				Deletion: registry.Deletion{AnswerObject: true},
				Table: registry.Table{Columns: columns(
					text("Type", "spec.type", "How the service is reached."),
					made("Cluster-IP", "The address inside the cluster.", clusterIP, "spec.clusterIPs"),
					made("External-IP", "The addresses outside of it.", externalIP, "spec", "status.loadBalancer.ingress"),
					made("Port(s)", "The ports of the service.", servicePorts, "spec.ports"),
					wide(labelColumn("spec.selector")),
				)},
			},
			fields: []string{"spec.clusterIP", "spec.type"}, companions: addressChanges, objects: serviceObjects, fill: fillService,
		},
		kind[discoveryv1.EndpointSlice]{cluster: c, Kind: registry.Kind[discoveryv1.EndpointSlice]{
			Rules: registry.Rules[discoveryv1.EndpointSlice]{
				Keep: dropTopology, ValidateUpdate: updated(c.checkSliceUpdate),
				ValidateCreate: func(_ context.Context, obj *discoveryv1.EndpointSlice, f *status.Fields) { c.checkSlice(obj, nil, f) },
			},

			Group: "discovery.k8s.io", Version: "v1", Plural: "endpointslices",
			Table: registry.Table{Columns: columns(
				text("AddressType", "addressType", "What sort of addresses they are."),
				made("Ports", "The ports of every endpoint.", slicePorts, "ports"),
				made("Endpoints", "The addresses.", sliceEndpoints, "endpoints"),
			)},
		}, fill: fillSlice},
	}
}

func clusterIP(v []any) any {
	if all := words(v[0]); len(all) > 0 {
		return all[0]
	}
	return "<none>"
}

func externalIP(v []any) any {
	spec, given := v[0], strings.Join(words(at(v[0], "externalIPs")), ",")
	switch at(spec, "type") {
	case "ExternalName":
		return word(at(spec, "externalName"))
	case "LoadBalancer":
		all := append(balancers(v[1]), words(at(spec, "externalIPs"))...)
		if len(all) == 0 {
			return "<pending>"
		}
		return strings.Join(all, ",")
	case "ClusterIP", "NodePort":
		if given == "" {
			return "<none>"
		}
		return given
	}
	return "<unknown>"
}

// balancers returns the addresses or names of load balancers, each once.
func balancers(ingress any) []string {
	var out []string
	for _, i := range list(ingress) {
		if ip := word(at(i, "ip")); ip != "" {
			out = append(out, ip)
		} else if host := word(at(i, "hostname")); host != "" {
			out = append(out, host)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func servicePorts(v []any) any {
	var out []string
	for _, p := range list(v[0]) {
		port := word(at(p, "port"))
		if n := number(at(p, "nodePort")); n > 0 {
			port += ":" + word(n)
		}
		out = append(out, port+"/"+word(at(p, "protocol")))
	}
	if len(out) == 0 {
		return "<none>"
	}
	return strings.Join(out, ",")
}

func slicePorts(v []any) any {
	var out []string
	for _, p := range list(v[0]) {
		switch {
		case at(p, "port") != nil:
			out = append(out, word(at(p, "port")))
		case at(p, "name") != nil:
			out = append(out, word(at(p, "name")))
		default:
			out = append(out, "*")
		}
	}
	return unset(few(out, 3))
}

func sliceEndpoints(v []any) any {
	var out []string
	for _, e := range list(v[0]) {
		out = append(out, words(at(e, "addresses"))...)
	}
	return unset(few(out, 3))
}

func unset(s string) string {
	if s == "" {
		return "<unset>"
	}
	return s
}
