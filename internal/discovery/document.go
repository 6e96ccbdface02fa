package discovery

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/kindwright/kindwright/internal/json"
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

// catalog holds the documents of one generation. It is immutable, except for documents that are
// built on their first request.
type catalog struct {
	generation uint64
	groups     []Group                      // as they are listed
	byName     map[string]*Group            // the same, without the core group
	versions   map[string]*versionDocuments // by documentName
	pages      map[string]page              // by path: those that concern all groups
	index      func() (*document, error)    // of the OpenAPI documents; nil if there are none
	swagger    map[bool]*swagger            // as JSON (false) and as protobuf (true); empty if there is none
}

// page is a document of discovery. Some also have an aggregated form.
type page struct {
	plain, aggregated func() (*document, error)
}

// versionDocuments are the documents of one group version. They pass from one generation to the
// next while the version does not change.
type versionDocuments struct {
	identity   any
	resources  func() (*document, error)
	aggregated func() (*document, error) // its part of aggregated discovery
	schema     func() (*document, error) // nil if there is no OpenAPI document
}

// build returns the documents of a generation. It takes over those of unchanged group versions from
// the previous catalog, which may be nil.
func (h *Handler) build(content Content, previous *catalog) *catalog {
	c := &catalog{
		generation: content.Generation, groups: sorted(content.Groups), byName: map[string]*Group{},
		versions: map[string]*versionDocuments{}, swagger: map[bool]*swagger{},
	}
	published := false
	for i := range c.groups {
		g := &c.groups[i]
		if g.Name != "" {
			c.byName[g.Name] = g
		}
		for _, v := range g.Versions {
			name := documentName(g.Name, v.Name)
			c.versions[name] = previous.unchanged(name, v)
			if c.versions[name] == nil {
				c.versions[name] = h.describe(g.Name, v)
			}
			published = published || v.Schema != nil
		}
	}
	if content.Swagger != nil {
		for _, protobuf := range []bool{false, true} {
			c.swagger[protobuf] = &swagger{build: func() ([]byte, error) { return content.Swagger(protobuf) }, keep: h.keep()}
		}
	}
	core, named := split(c.groups)
	c.pages = map[string]page{
		"/version": {plain: encoded(func() any { return h.Version })},
		"/api": {encoded(func() any {
			return meta.APIVersions{TypeMeta: meta.TypeMeta{Kind: "APIVersions"}, Versions: versionNames(core), ServerAddressByClientCIDRs: h.addresses()}
		}), h.aggregate(c, core)},
		"/apis": {encoded(func() any {
			return meta.APIGroupList{TypeMeta: meta.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: apiGroups(named)}
		}), h.aggregate(c, named)},
		"/": {plain: encoded(func() any { return h.rootPaths(c) })},
	}
	if published {
		c.index = once(func() ([]byte, error) { return h.buildIndex(c.versions) })
	}
	return c
}

// unchanged returns the documents of a version if they are those of the same contents, or else nil.
func (c *catalog) unchanged(name string, v Version) *versionDocuments {
	if c == nil || v.Identity == nil {
		return nil
	}
	if have := c.versions[name]; have != nil && have.identity == v.Identity {
		return have
	}
	return nil
}

// describe returns the documents of a version. None of them is built yet.
func (h *Handler) describe(group string, v Version) *versionDocuments {
	d := &versionDocuments{
		identity:   v.Identity,
		resources:  encoded(func() any { return resourceList(group, v.Name, v.resources()) }),
		aggregated: encoded(func() any { return aggregateVersion(v) }),
	}
	if v.Schema != nil {
		d.schema = once(v.Schema)
	}
	return d
}

// page returns the document of discovery at a path, with its aggregated form if it has one.
func (c *catalog) page(path string) (page, bool) {
	if p, ok := c.pages[path]; ok {
		return p, true
	}
	name := strings.TrimPrefix(path, "/")
	if v, ok := c.versions[name]; ok {
		return page{plain: v.resources}, true
	}
	if name, ok := strings.CutPrefix(path, "/apis/"); ok && c.byName[name] != nil {
		return page{plain: func() (*document, error) { // small enough to be written for each request
			one := apiGroup(*c.byName[name])
			one.TypeMeta = meta.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
			return encode(one)
		}}, true
	}
	return page{}, false
}

// encoded returns a function that builds a document of a value on the first call.
func encoded(value func() any) func() (*document, error) {
	return once(func() ([]byte, error) { return json.Marshal(value()) })
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

// sorted returns the groups with their versions in the order of their listing. Groups keep their
// order.
func sorted(groups []Group) []Group {
	groups = slices.Clone(groups)
	for i := range groups {
		versions := slices.Clone(groups[i].Versions)
		slices.SortStableFunc(versions, func(a, b Version) int {
			return cmp.Or(cmp.Compare(b.Priority, a.Priority), meta.CompareVersions(a.Name, b.Name))
		})
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
func (h *Handler) rootPaths(c *catalog) meta.RootPaths {
	paths := slices.Clone(h.Paths)
	for path := range c.pages {
		paths = append(paths, path)
	}
	paths = slices.DeleteFunc(paths, func(path string) bool { return path == "/" })
	for name := range c.byName {
		paths = append(paths, "/apis/"+name)
	}
	if len(c.swagger) > 0 {
		paths = append(paths, swaggerPath)
	}
	if c.index != nil {
		paths = append(paths, schemaRoot)
	}
	for name, v := range c.versions {
		paths = append(paths, "/"+name)
		if v.schema != nil {
			paths = append(paths, schemaRoot+"/"+name)
		}
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

// buildIndex lists the OpenAPI documents with their hashes, so it builds those that do not exist
// yet. It omits a document that cannot be built, because that concerns only one group.
func (h *Handler) buildIndex(versions map[string]*versionDocuments) ([]byte, error) {
	paths := map[string]any{}
	for name, v := range versions {
		if v.schema == nil {
			continue
		}
		d, err := v.schema()
		if err != nil {
			h.Logger.Error(err, "an OpenAPI document cannot be built", "document", name)
			continue
		}
		paths[name] = map[string]any{"serverRelativeURL": h.schemaURL(name, d)}
	}
	return json.AppendTree(nil, map[string]any{"paths": paths})
}

// schemaURL returns the address of the current version of an OpenAPI document. The content at that
// address never changes.
func (h *Handler) schemaURL(name string, d *document) string {
	return (&url.URL{Path: h.prefix() + schemaRoot + "/" + name, RawQuery: "hash=" + d.hash}).String()
}
