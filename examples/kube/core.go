package kube

import (
	"cmp"
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/registry/connect"
	"github.com/kindwright/kindwright/status"
)

// core are the kinds of the core group except pods, services and volumes.
func core(c *cluster) []registry.Definition {
	return []registry.Definition{
		kind[corev1.ConfigMap]{
			cluster: c,
			Kind: registry.Kind[corev1.ConfigMap]{
				Rules: registry.Rules[corev1.ConfigMap]{
					Validate: checked(checkConfigMap),
					ValidateUpdate: func(_ context.Context, obj, old *corev1.ConfigMap, f *status.Fields) {
						checkConfigMapUpdate(obj, old, f)
					},
				},

				Version: "v1", Plural: "configmaps", Names: registry.Names{ShortNames: []string{"cm"}}, Writes: registry.WriteRules{NoGeneration: true},
				Table: registry.Table{Columns: columns(made("Data", "How many entries there are.", func(v []any) any { return size(v[0]) + size(v[1]) }, "data", "binaryData"))},
			},
		},
		kind[corev1.Secret]{
			cluster: c,
			Kind: registry.Kind[corev1.Secret]{
				Rules: registry.Rules[corev1.Secret]{Validate: checked(checkSecret), ValidateUpdate: func(_ context.Context, obj, old *corev1.Secret, f *status.Fields) { checkSecretUpdate(obj, old, f) }},

				Version: "v1", Plural: "secrets", Serving: registry.Serving{NoCompression: true}, Writes: registry.WriteRules{NoGeneration: true},
				Table: registry.Table{Columns: columns(text("Type", "type", "What the secret is for."), made("Data", "How many entries there are.", func(v []any) any { return size(v[0]) }, "data"))},
			},
			fields: []string{"type"}, fill: fillSecret,
		},
		kind[corev1.ServiceAccount]{cluster: c, Kind: registry.Kind[corev1.ServiceAccount]{
			Rules: registry.Rules[corev1.ServiceAccount]{
				Keep:           keepSecretNames,
				ValidateCreate: func(ctx context.Context, a *corev1.ServiceAccount, _ *status.Fields) { warnOfMountable(ctx, a, nil) },
				ValidateUpdate: func(ctx context.Context, a, old *corev1.ServiceAccount, _ *status.Fields) {
					warnOfMountable(ctx, a, old)
				},
			},
			Version: "v1", Plural: "serviceaccounts", Deletion: answered(), Names: registry.Names{ShortNames: []string{"sa"}}, Subresources: []registry.Endpoint{c.tokens()}, Table: registry.Table{Columns: columns()}, Writes: registry.WriteRules{NoGeneration: true},
		}},
		kind[corev1.LimitRange]{
			cluster: c,
			Kind: registry.Kind[corev1.LimitRange]{
				Rules:   registry.Rules[corev1.LimitRange]{Validate: checked(checkLimitRange)},
				Version: "v1", Plural: "limitranges", Names: registry.Names{ShortNames: []string{"limits"}}, Writes: registry.WriteRules{NoGeneration: true, CreateOnUpdate: true},
			},
			fill: fillLimitRange,
		},
		kind[corev1.ResourceQuota]{cluster: c, Kind: registry.Kind[corev1.ResourceQuota]{
			Rules: registry.Rules[corev1.ResourceQuota]{Validate: checkQuota, ValidateUpdate: updated(checkQuotaUpdate)},

			Version: "v1", Plural: "resourcequotas", Deletion: answered(), Names: registry.Names{ShortNames: []string{"quota"}}, Writes: registry.WriteRules{NoGeneration: true},
			Table: registry.Table{Columns: columns(
				made("Request", "What of the requested amounts is used.", func(v []any) any { return quotaText(v, false) }, "status.used", "status.hard"),
				made("Limit", "What of the limits is used.", func(v []any) any { return quotaText(v, true) }, "status.used", "status.hard"),
			)},
		}, fill: fillQuota},
		kind[corev1.Node]{
			cluster: c,
			Kind: registry.Kind[corev1.Node]{
				Rules: registry.Rules[corev1.Node]{Complete: c.completeNode, Validate: c.checkNode, ValidateUpdate: updated(checkNodeUpdate)},

				Version: "v1", Plural: "nodes", Names: registry.Names{ShortNames: []string{"no"}}, Scope: registry.ClusterScoped, Writes: registry.WriteRules{NoGeneration: true},
				Subresources: []registry.Endpoint{connect.Endpoint[corev1.Node, corev1.NodeProxyOptions]{
					Name: "proxy", Paths: true, Methods: everyMethod(), Object: objectOf("node"), Serve: c.proxyNode,
				}},
				Status: registry.Status{AtCreation: true},
				Table:  registry.Table{Columns: nodeColumns()},
			},
			fill: fillNode, reads: map[string]reading{"spec.unschedulable": truthAt("spec", "unschedulable")},
		},
		kind[corev1.Endpoints]{ //nolint:staticcheck // they are deprecated, and served
			cluster: c,
			Kind: registry.Kind[corev1.Endpoints]{ //nolint:staticcheck // likewise

				Rules:   registry.Rules[corev1.Endpoints]{ValidateCreate: checked(c.checkEndpoints), ValidateUpdate: updated(c.checkEndpointsUpdate)}, //nolint:staticcheck // likewise
				Serving: registry.Serving{Deprecated: &registry.Deprecation{Since: "1.33", Instead: meta.GroupVersionKind{Group: "discovery.k8s.io", Version: "v1", Kind: "EndpointSlice"}}},

				Version: "v1", Plural: "endpoints", Names: registry.Names{ShortNames: []string{"ep"}}, Writes: registry.WriteRules{NoGeneration: true, CreateOnUpdate: true},
				Table: registry.Table{Columns: columns(made("Endpoints", "The addresses.", func(v []any) any { return endpointText(v[0]) }, "subsets"))},
			},
			fill: fillEndpoints,
		},
	}
}

// quotaText lists the used and the total amounts, either of limits or of everything else.
func quotaText(v []any, limits bool) string {
	used, hard := v[0], v[1]
	all, _ := hard.(map[string]any)
	var out []string
	for _, name := range sortedNames(all) {
		if strings.HasPrefix(name, "limits.") == limits {
			out = append(out, name+": "+cmp.Or(word(at(used, name)), "0")+"/"+word(all[name]))
		}
	}
	return strings.Join(out, ", ")
}

func sortedNames[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// endpointText lists addresses with their ports.
func endpointText(subsets any) string {
	if size(subsets) == 0 {
		return "<none>"
	}
	var all []string
	for _, s := range list(subsets) {
		ports := list(at(s, "ports"))
		if len(ports) == 0 {
			all = append(all, words(at(s, "addresses"), "ip")...)
		}
		for _, p := range ports {
			for _, ip := range words(at(s, "addresses"), "ip") {
				all = append(all, hostPort(ip, word(at(p, "port"))))
			}
		}
	}
	return few(all, 3)
}
