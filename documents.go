package kindwright

import (
	"cmp"
	"slices"

	"github.com/kindwright/kindwright/internal/discovery"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/negotiate"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
)

// describe returns the handler of discovery and OpenAPI for the served resources.
func (s *Server) describe(output *negotiate.Output) *discovery.Handler {
	return &discovery.Handler{
		Generation:  s.generation,
		Content:     s.content,
		GroupDomain: s.engine.GroupDomain(),
		PathPrefix:  s.cfg.http.PathPrefix,
		Version:     s.versionInfo(),
		Paths:       []string{"/healthz", "/livez", "/metrics", "/readyz"},
		Output:      output,
		Logger:      s.cfg.log,

		ServerAddress: s.cfg.kubernetes.ServerAddress,
	}
}

// content lists the present set of resources by group version. No document is made before a client
// asks for it. A version that has not changed is the same value in the next set, so its documents
// stay.
func (s *Server) content() discovery.Content {
	set := s.engine.Set()
	generation := set.Generation()
	if preview := s.preview.Load(); preview != nil && len(set.Groups()) == 0 {
		set = preview // until the first kinds are loaded, which makes another generation
	}
	out := discovery.Content{Generation: generation, Groups: make([]discovery.Group, 0, len(set.Groups()))}
	for _, g := range set.Groups() {
		group := discovery.Group{Name: g.Name, Versions: make([]discovery.Version, 0, len(g.Versions))}
		for _, v := range g.Versions {
			group.Versions = append(group.Versions, discovery.Version{
				Name:      v.Version,
				Identity:  v,
				Resources: func() []discovery.Resource { return resourcesOf(v) },
				Schema:    func() ([]byte, error) { return s.openapiOf(v).JSON() },
			})
		}
		out.Groups = append(out.Groups, group)
	}
	out.Swagger = func(protobuf bool) ([]byte, error) {
		swagger := openapi.Swagger{
			Version: s.cfg.kubernetes.Version.GitVersion, BasePath: s.cfg.http.PathPrefix, BearerToken: s.knowsUsers(),
		}
		for _, g := range set.Groups() {
			for _, v := range g.Versions {
				swagger.Documents = append(swagger.Documents, s.openapiOf(v))
			}
		}
		if s.cfg.behind != nil {
			swagger.Others = s.cfg.behind.Swagger(set.ServesVersion)
		}
		if protobuf {
			return swagger.Protobuf()
		}
		return swagger.JSON()
	}
	return s.described(out)
}

// resourcesOf describes the resources of a group version for discovery.
func resourcesOf(v *engine.Version) []discovery.Resource {
	out := make([]discovery.Resource, len(v.Kinds))
	for i, served := range v.Kinds {
		out[i] = resourceOf(served)
	}
	return out
}

func resourceOf(served *engine.Served) discovery.Resource {
	r := served.Kind
	out := discovery.Resource{
		GVK: r.GroupVersionKind(), Plural: r.Plural, Singular: r.Names.Singular, Namespaced: !r.ClusterScoped,
		Verbs: served.Verbs(), ShortNames: r.Names.ShortNames, Categories: r.Names.Categories,
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
	if r.Type == nil {
		return out // clients know the order of status and scale of custom resources
	}
	slices.SortFunc(out.Subresources, func(a, b discovery.Subresource) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// knowsUsers reports whether the program brought authenticators. Most of them take bearer tokens, and those
// that do not say so nowhere.
func (s *Server) knowsUsers() bool { return len(s.cfg.authenticators) > 0 }

// openapiOf describes one group version.
func (s *Server) openapiOf(v *engine.Version) openapi.Document {
	doc := openapi.Document{
		Group: v.Group, Version: v.Version, CBOR: s.cbor, BasePath: s.cfg.http.PathPrefix, WatchPaths: s.cfg.watches.OldPaths,
		BearerToken: s.knowsUsers(),
	}
	for _, served := range v.Kinds {
		r := served.Kind
		kind := openapi.KindDoc{
			Kind: r.Names.Kind, ListKind: r.Names.ListKind, Plural: r.Plural, Namespaced: !r.ClusterScoped,
			Verbs: r.Verbs, Schema: r.Schema, Description: r.Description,
			Protobuf: r.Messages != nil, Selectable: r.Selectable, AnswersDeleted: r.Deletion.AnswerObject,
		}
		for _, p := range r.Patches {
			// Where documents name it, kubectl prefers a strategic merge patch, which without a server it can make
			// for the types alone that it was built with.
			if p != meta.StrategicMergePatch || r.Messages != nil {
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
		if p != meta.StrategicMergePatch || r.Messages != nil {
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
	return &openapi.DocumentDoc{Kind: r.GroupVersionKind(), Schema: r.Schema, Protobuf: r.Messages != nil}
}
