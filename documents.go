package kindwright

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kindwright/kindwright/internal/discovery"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/registry"
)

// documents describes the present set of resources for discovery and OpenAPI.
func (s *Server) documents() (generation uint64, groups []discovery.Group, schemas discovery.Schemas) {
	set := s.engine.Set()
	d := s.described.Load()
	if d == nil || d.generation != set.Generation() {
		d = &described{set.Generation(), groupsOf(set)}
		s.described.Store(d)
	}
	return d.generation, d.groups, discovery.Schemas{
		V3: func(group, version string) ([]byte, error) {
			doc := openapiOf(set, group, version)
			if len(doc.Kinds) == 0 {
				return nil, fmt.Errorf("no resources in %s", meta.GroupVersion{Group: group, Version: version})
			}
			return doc.JSON()
		},
		V2: func(protobuf bool) ([]byte, error) {
			swagger := openapi.Swagger{Version: s.cfg.kubernetes.Version.GitVersion}
			for _, g := range d.groups {
				for _, v := range g.Versions {
					swagger.Documents = append(swagger.Documents, openapiOf(set, g.Name, v.Name))
				}
			}
			if protobuf {
				return swagger.Protobuf()
			}
			return swagger.JSON()
		},
	}
}

// described is what discovery says of one generation of the set.
type described struct {
	generation uint64
	groups     []discovery.Group
}

// groupsOf sorts the resources of a set by group and version, the core group first.
func groupsOf(set *engine.Set) []discovery.Group {
	var groups []discovery.Group
	for _, served := range set.All() { // ordered by group, version and name
		r := served.Resource
		if len(groups) == 0 || groups[len(groups)-1].Name != r.Group {
			groups = append(groups, discovery.Group{Name: r.Group})
		}
		g := &groups[len(groups)-1]
		if len(g.Versions) == 0 || g.Versions[len(g.Versions)-1].Name != r.Version {
			g.Versions = append(g.Versions, discovery.Version{Name: r.Version})
		}
		v := &g.Versions[len(g.Versions)-1]
		v.Resources = append(v.Resources, resourceOf(served.Kind))
	}
	return groups
}

func resourceOf(r *engine.Kind) discovery.Resource {
	out := discovery.Resource{
		GVK: r.GroupVersionKind(), Plural: r.Names.Plural, Singular: r.Names.Singular, Namespaced: !r.ClusterScoped,
		Verbs: r.Verbs(), ShortNames: r.Names.ShortNames, Categories: r.Names.Categories,
	}
	if r.Virtual == nil {
		stored := r.Resource
		if r.Stored != nil {
			stored = r.Stored.Resource
		}
		out.StorageHash = discovery.StorageVersionHash(stored.GroupVersionKind())
	}
	for _, sub := range r.Endpoints() {
		out.Subresources = append(out.Subresources, discovery.Subresource{Name: sub.Name, Kind: sub.GroupVersionKind(r), Verbs: sub.Verbs})
	}
	slices.SortFunc(out.Subresources, func(a, b discovery.Subresource) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// openapiOf describes one group version.
func openapiOf(set *engine.Set, group, version string) openapi.Document {
	doc := openapi.Document{Group: group, Version: version}
	for _, served := range set.All() {
		r := served.Kind
		if r.Group != group || r.Version != version {
			continue
		}
		kind := openapi.KindDoc{
			Kind: r.Names.Kind, ListKind: r.Names.ListKind, Plural: r.Names.Plural, Namespaced: !r.ClusterScoped,
			Verbs: r.Verbs(), Schema: r.Schema, Description: r.Description,
			Protobuf: r.Messages() != nil,
		}
		for _, p := range r.Patches() {
			// Where documents name it, kubectl prefers a strategic merge patch, which without a server it can make
			// for the types alone that it was built with.
			if p != registry.StrategicMergePatch || r.Messages() != nil {
				kind.Patches = append(kind.Patches, string(p))
			}
		}
		for _, sub := range r.Endpoints() {
			kind.Subresources = append(kind.Subresources, openapiBelow(r, sub))
		}
		doc.Kinds = append(doc.Kinds, kind)
	}
	return doc
}

// openapiBelow describes one subresource of a resource.
func openapiBelow(r *engine.Kind, sub *engine.Subresource) openapi.SubresourceDoc {
	doc := openapi.SubresourceDoc{Name: sub.Name, Verbs: sub.Verbs, Details: map[string]openapi.VerbDoc{}}
	for _, p := range sub.Patches(r) {
		if p != registry.StrategicMergePatch || r.Messages() != nil {
			doc.Patches = append(doc.Patches, string(p))
		}
	}
	for _, verb := range sub.Verbs {
		detail := openapi.VerbDoc{Body: documentOf(sub.Document(verb)), Answer: documentOf(sub.Answer(verb)), Parameters: sub.Parameters(verb)}
		switch {
		case sub.Connects():
			detail.Connect, detail.MediaType = true, "*/*"
		case sub.Streams(verb):
			detail.MediaType = sub.MediaType()
		}
		doc.Details[verb] = detail
	}
	if sub.Connects() {
		doc.Kind = sub.GroupVersionKind(r)
	}
	return doc
}

// documentOf describes what a subresource exchanges; nil stands for the kind itself.
func documentOf(r *engine.Kind) *openapi.DocumentDoc {
	if r == nil {
		return nil
	}
	return &openapi.DocumentDoc{Kind: r.GroupVersionKind(), Schema: r.Schema, Protobuf: r.Messages() != nil}
}
