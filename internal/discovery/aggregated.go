package discovery

import (
	"slices"
	"strings"

	"github.com/kindwright/kindwright/meta"
)

// aggregate returns all groups with their contents in one document (DISC-07).
func (h *Handler) aggregate(groups []Group) meta.APIGroupDiscoveryList {
	list := meta.APIGroupDiscoveryList{
		TypeMeta: meta.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery." + h.domain() + "/v2"},
		Items:    make([]meta.APIGroupDiscovery, len(groups)),
	}
	for i, g := range groups {
		item := &list.Items[i]
		item.Name = g.Name
		for _, v := range g.Versions {
			item.Versions = append(item.Versions, aggregateVersion(v))
		}
	}
	return list
}

func aggregateVersion(v Version) meta.APIVersionDiscovery {
	out := meta.APIVersionDiscovery{Version: v.Name, Freshness: meta.DiscoveryFreshnessCurrent}
	if v.Stale {
		out.Freshness = meta.DiscoveryFreshnessStale
	}
	for _, r := range v.Resources {
		entry := meta.APIResourceDiscovery{
			Resource: r.Plural, ResponseKind: &r.GVK, Scope: meta.ScopeCluster, SingularResource: r.Singular,
			Verbs: listed(r.Verbs), ShortNames: r.ShortNames, Categories: r.Categories,
		}
		if r.Namespaced {
			entry.Scope = meta.ScopeNamespace
		}
		for _, s := range r.subresources() {
			entry.Subresources = append(entry.Subresources, meta.APISubresourceDiscovery{Subresource: s.Name, ResponseKind: &s.Kind, Verbs: listed(s.Verbs)})
		}
		out.Resources = append(out.Resources, entry)
	}
	return out
}

// subresources returns the subresources in the order of their listing.
func (r *Resource) subresources() []Subresource {
	out := slices.Clone(r.Subresources)
	slices.SortStableFunc(out, func(a, b Subresource) int { return strings.Compare(a.Name, b.Name) })
	return out
}
