package discovery

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/negotiate"
	"github.com/kindwright/kindwright/meta"
)

// A document is one response as JSON, and its hash.
type document struct {
	body []byte
	hash string
}

func newDocument(body []byte) *document {
	sum := sha256.Sum256(body)
	return &document{body: body, hash: strings.ToUpper(hex.EncodeToString(sum[:]))}
}

func encode(v any) (*document, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return newDocument(body), nil
}

// Schemas builds the OpenAPI documents of one generation. Each one is built at most once, on its
// first request. A nil function means that there are no such documents.
type Schemas struct {
	V3 func(group, version string) ([]byte, error) // the document of a group version
	V2 func(protobuf bool) ([]byte, error)         // the document of everything, as JSON or protobuf
}

// catalog holds all documents of one generation. It is immutable, except for documents that are
// built on their first request.
type catalog struct {
	generation uint64
	plain      map[string]*document                 // by path
	aggregated map[string]*document                 // by path: /api and /apis
	schemas    map[string]func() (*document, error) // OpenAPI, by name: api/v1, apis/example.dev/v1
	index      func() (*document, error)            // of the OpenAPI documents
	swagger    func(negotiate.MediaType) (*document, error)
}

// build returns the documents of a set of groups.
func (h *Handler) build(generation uint64, groups []Group, docs Schemas) (*catalog, error) {
	c := &catalog{generation: generation, plain: map[string]*document{}, aggregated: map[string]*document{}, schemas: map[string]func() (*document, error){}}
	groups = sorted(groups)
	core, named := split(groups)
	plain := map[string]any{
		"/version": h.Version,
		"/api":     meta.APIVersions{TypeMeta: meta.TypeMeta{Kind: "APIVersions"}, Versions: versionNames(core), ServerAddressByClientCIDRs: h.addresses()},
		"/apis":    meta.APIGroupList{TypeMeta: meta.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: apiGroups(named)},
	}
	for _, g := range groups {
		if g.Name != "" {
			one := apiGroup(g)
			one.TypeMeta = meta.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
			plain["/apis/"+g.Name] = one
		}
		for _, v := range g.Versions {
			name := documentName(g.Name, v.Name)
			plain["/"+name] = resourceList(g.Name, v)
			if docs.V3 != nil {
				c.schemas[name] = once(func() ([]byte, error) { return docs.V3(g.Name, v.Name) })
			}
		}
	}
	if docs.V2 != nil {
		inJSON := once(func() ([]byte, error) { return docs.V2(false) })
		inProtobuf := once(func() ([]byte, error) { return docs.V2(true) })
		c.swagger = func(form negotiate.MediaType) (*document, error) {
			if form == negotiate.Swagger {
				return inProtobuf()
			}
			return inJSON()
		}
	}
	plain["/"] = h.rootPaths(plain, c)
	for path, v := range plain {
		d, err := encode(v)
		if err != nil {
			return nil, err
		}
		c.plain[path] = d
	}
	for path, groups := range map[string][]Group{"/api": core, "/apis": named} {
		d, err := encode(h.aggregate(groups))
		if err != nil {
			return nil, err
		}
		c.aggregated[path] = d
	}
	if docs.V3 != nil {
		c.index = sync.OnceValues(func() (*document, error) { return h.buildIndex(c.schemas) })
	}
	return c, nil
}

// once returns a function that builds a document on the first call.
func once(build func() ([]byte, error)) func() (*document, error) {
	return sync.OnceValues(func() (*document, error) {
		body, err := build()
		if err != nil {
			return nil, err
		}
		return newDocument(body), nil
	})
}

// documentName returns the path of a group version without its first slash, which is also the name
// of its OpenAPI document.
func documentName(group, version string) string {
	if group == "" {
		return "api/" + version
	}
	return "apis/" + group + "/" + version
}

// sorted returns the groups with versions and resources in the order of their listing. Groups keep
// their order.
func sorted(groups []Group) []Group {
	groups = slices.Clone(groups)
	for i := range groups {
		versions := slices.Clone(groups[i].Versions)
		slices.SortStableFunc(versions, func(a, b Version) int { return meta.CompareVersions(a.Name, b.Name) })
		for j := range versions {
			resources := slices.Clone(versions[j].Resources)
			slices.SortStableFunc(resources, func(a, b Resource) int { return strings.Compare(a.Plural, b.Plural) })
			versions[j].Resources = resources
		}
		groups[i].Versions = versions
	}
	return groups
}

// split separates the core group, which is listed at /api, from the others.
func split(groups []Group) (core, named []Group) {
	for _, g := range groups {
		if g.Name == "" {
			core = append(core, g)
		} else {
			named = append(named, g)
		}
	}
	return core, named
}

func versionNames(groups []Group) []string {
	names := []string{}
	for _, g := range groups {
		for _, v := range g.Versions {
			names = append(names, v.Name)
		}
	}
	return names
}

func (h *Handler) addresses() []meta.ServerAddressByClientCIDR {
	if h.ServerAddress == "" {
		return []meta.ServerAddressByClientCIDR{}
	}
	return []meta.ServerAddressByClientCIDR{{ClientCIDR: "0.0.0.0/0", ServerAddress: h.ServerAddress}}
}

// rootPaths lists the paths of the server, below its prefix.
func (h *Handler) rootPaths(plain map[string]any, c *catalog) meta.RootPaths {
	paths := slices.Clone(h.Paths)
	for path := range plain {
		paths = append(paths, path)
	}
	if c.swagger != nil {
		paths = append(paths, swaggerPath)
	}
	if len(c.schemas) > 0 {
		paths = append(paths, schemaRoot)
	}
	for name := range c.schemas {
		paths = append(paths, schemaRoot+"/"+name)
	}
	for i := range paths {
		paths[i] = h.prefix() + paths[i]
	}
	slices.Sort(paths)
	return meta.RootPaths{Paths: slices.Compact(paths)}
}

// swaggerPath is the path of the OpenAPI v2 document.
const swaggerPath = "/openapi/v2"

// schemaRoot is the path of the index of OpenAPI v3 documents.
const schemaRoot = "/openapi/v3"

// buildIndex lists the OpenAPI documents with their hashes, so it builds all of them. It omits a
// document that cannot be built, because that concerns only one group.
func (h *Handler) buildIndex(schemas map[string]func() (*document, error)) (*document, error) {
	paths := map[string]any{}
	for name, schema := range schemas {
		d, err := schema()
		if err != nil {
			h.Logger.Error(err, "an OpenAPI document cannot be built", "document", name)
			continue
		}
		paths[name] = map[string]any{"serverRelativeURL": h.schemaURL(name, d)}
	}
	body, err := json.AppendTree(nil, map[string]any{"paths": paths})
	if err != nil {
		return nil, err
	}
	return newDocument(body), nil
}

// schemaURL returns the address of the current version of an OpenAPI document. The content at that
// address never changes.
func (h *Handler) schemaURL(name string, d *document) string {
	return (&url.URL{Path: h.prefix() + schemaRoot + "/" + name, RawQuery: "hash=" + d.hash}).String()
}
