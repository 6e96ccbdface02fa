package kube

import (
	"context"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// networking are the kinds of networking.k8s.io.
func networking(c *cluster) []registry.Definition {
	const group = "networking.k8s.io"
	return []registry.Definition{
		kind[networkingv1.Ingress]{cluster: c, Kind: registry.Kind[networkingv1.Ingress]{
			Rules: registry.Rules[networkingv1.Ingress]{
				Complete: c.completeIngress, ValidateCreate: checked(checkNewIngress), ValidateUpdate: c.checkIngressUpdate,
			},

			Group: group, Version: "v1", Plural: "ingresses", Names: registry.Names{ShortNames: []string{"ing"}},
			Table: registry.Table{Columns: columns(
				or("Class", "spec.ingressClassName", "<none>", "Who serves it."),
				made("Hosts", "The hosts of its rules.", ingressHosts, "spec.rules"),
				made("Address", "Where it is served.",
					func(v []any) any { return strings.Join(balancers(v[0]), ",") }, "status.loadBalancer.ingress"),
				made("Ports", "The ports it is served on.", func(v []any) any {
					if size(v[0]) > 0 {
						return "80, 443"
					}
					return "80"
				}, "spec.tls"),
			)},
		}},
		kind[networkingv1.IngressClass]{cluster: c, Kind: registry.Kind[networkingv1.IngressClass]{
			Rules: registry.Rules[networkingv1.IngressClass]{Validate: checked(checkIngressClass), ValidateUpdate: updated(checkIngressClassUpdate)},
			Group: group, Version: "v1", Plural: "ingressclasses", Scope: registry.ClusterScoped,
			Table: registry.Table{Columns: append([]openapi.Column{defaultedName("ingressclass.kubernetes.io/is-default-class")},
				text("Controller", "spec.controller", "Who serves it."),
				made("Parameters", "The object that says more.", classParameters, "spec.parameters"),
				aged())},
		}, fill: fillIngressClass},
		kind[networkingv1.NetworkPolicy]{cluster: c, Kind: registry.Kind[networkingv1.NetworkPolicy]{
			Rules: registry.Rules[networkingv1.NetworkPolicy]{
				ValidateCreate: func(_ context.Context, p *networkingv1.NetworkPolicy, f *status.Fields) {
					c.checkNetworkPolicy(p, nil, f)
				},
				ValidateUpdate: updated(c.checkNetworkPolicy),
			},

			Group: group, Version: "v1", Plural: "networkpolicies", Names: registry.Names{ShortNames: []string{"netpol"}},
			Table: registry.Table{Columns: columns(made("Pod-Selector", "The pods it is about.",
				func(v []any) any { return selectorText(v[0]) }, "spec.podSelector"))},
		}, fill: fillNetworkPolicy},
		withBeta[networkingv1.IPAddress, networkingv1beta1.IPAddress]{deprecated: deprecatedIn("1.34", "1.37"), kind: kind[networkingv1.IPAddress]{cluster: c, Kind: registry.Kind[networkingv1.IPAddress]{
			Group: group, Version: "v1", Plural: "ipaddresses", Names: registry.Names{ShortNames: []string{"ip"}},
			Scope: registry.ClusterScoped, Rules: registry.Rules[networkingv1.IPAddress]{
				Name: addressName, Validate: checked(checkIPAddress), ValidateUpdate: updated(checkIPAddressUpdate),
			},
			Writes: registry.WriteRules{NoGeneration: true},
			Table: registry.Table{Columns: []openapi.Column{
				named(),
				made("ParentRef", "What the address belongs to.", parentText, "spec.parentRef"),
			}},
		}}},
		withBeta[networkingv1.ServiceCIDR, networkingv1beta1.ServiceCIDR]{deprecated: deprecatedIn("1.34", "1.37"), kind: kind[networkingv1.ServiceCIDR]{cluster: c, statusKeeps: everyMetadata(), Kind: registry.Kind[networkingv1.ServiceCIDR]{
			Rules: registry.Rules[networkingv1.ServiceCIDR]{ValidateCreate: checked(checkServiceCIDR), ValidateUpdate: updated(checkServiceCIDRUpdate)},
			Group: group, Version: "v1", Plural: "servicecidrs", Scope: registry.ClusterScoped,
			Writes: registry.WriteRules{NoGeneration: true},
			Table: registry.Table{Columns: columns(made("CIDRs", "The ranges of addresses.",
				func(v []any) any { return strings.Join(words(v[0]), ",") }, "spec.cidrs"))},
		}}},
	}
}

// defaultedName returns the name of a class, marked if it is the default.
func defaultedName(annotations ...string) openapi.Column {
	c := made("Name", "The name of the object.", func(v []any) any {
		for _, a := range annotations {
			if at(v[1], a) == "true" {
				return word(v[0]) + " (default)"
			}
		}
		return word(v[0])
	}, "metadata.name", "metadata.annotations")
	c.Format = "name"
	return c
}

func ingressHosts(v []any) any {
	rules := list(v[0])
	var hosts []string
	for _, r := range rules[:min(len(rules), 3)] {
		if h := word(at(r, "host")); h != "" {
			hosts = append(hosts, h)
		}
	}
	for i := 3; i < len(rules) && len(hosts) < 3; i++ {
		if h := word(at(rules[i], "host")); h != "" {
			hosts = append(hosts, h)
		}
	}
	if len(hosts) == 0 {
		return "*"
	}
	out := strings.Join(hosts, ",")
	if len(rules) > 3 && len(hosts) == 3 {
		out += " + " + word(int64(len(rules)-3)) + " more..."
	}
	return out
}

func classParameters(v []any) any {
	if v[0] == nil {
		return "<none>"
	}
	kind := word(at(v[0], "kind"))
	if group := at(v[0], "apiGroup"); group != nil {
		kind += "." + word(group)
	}
	return kind + "/" + word(at(v[0], "name"))
}

func parentText(v []any) any {
	if v[0] == nil {
		return "<none>"
	}
	out := word(at(v[0], "resource"))
	if group := word(at(v[0], "group")); group != "" {
		out += "." + group
	}
	out = strings.ToLower(out)
	if ns := word(at(v[0], "namespace")); ns != "" {
		out += "/" + ns
	}
	return out + "/" + word(at(v[0], "name"))
}

// addressName accepts addresses in their one canonical form.
func addressName(name string) string {
	for _, why := range validation.IsValidIP(nil, name) {
		return why.Detail
	}
	return ""
}
