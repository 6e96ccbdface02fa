package discovery

import (
	"sync"

	"github.com/kindwright/kindwright/meta"
)

// aggregated is meta.APIGroupDiscoveryList whose versions are encoded already.
type aggregated struct {
	meta.TypeMeta
	meta.ListMeta `json:"metadata"`
	Items         []aggregatedGroup `json:"items"`
}

type aggregatedGroup struct {
	meta.TypeMeta
	meta.ObjectMeta `json:"metadata"`
	Versions        []meta.RawJSON `json:"versions,omitempty"`
}

// aggregate returns a function that builds the document of all groups with their contents (DISC-07).
// It is put together from the documents of the versions.
func (h *Handler) aggregate(c *catalog, groups []Group) func() (*document, error) {
	return sync.OnceValues(func() (*document, error) {
		list := aggregated{
			TypeMeta: meta.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery." + h.domain() + "/v2"},
			Items:    make([]aggregatedGroup, len(groups)),
		}
		for i, g := range groups {
			list.Items[i].Name = g.Name
			for _, v := range g.Versions {
				d, err := c.versions[documentName(g.Name, v.Name)].aggregated()
				if err != nil {
					return nil, err
				}
				list.Items[i].Versions = append(list.Items[i].Versions, d.body)
			}
		}
		return encode(list)
	})
}

func aggregateVersion(v Version) meta.APIVersionDiscovery {
	out := meta.APIVersionDiscovery{Version: v.Name, Freshness: meta.DiscoveryFreshnessCurrent}
	if v.Stale {
		out.Freshness = meta.DiscoveryFreshnessStale
	}
	for _, r := range v.resources() {
		entry := meta.APIResourceDiscovery{
			Resource: r.Plural, ResponseKind: &r.GVK, Scope: meta.ScopeCluster, SingularResource: r.Singular,
			Verbs: listed(r.Verbs), ShortNames: r.ShortNames, Categories: r.Categories,
		}
		if r.Namespaced {
			entry.Scope = meta.ScopeNamespace
		}
		for _, s := range r.Subresources {
			entry.Subresources = append(entry.Subresources, meta.APISubresourceDiscovery{Subresource: s.Name, ResponseKind: &s.Kind, Verbs: listed(s.Verbs)})
		}
		out.Resources = append(out.Resources, entry)
	}
	return out
}
