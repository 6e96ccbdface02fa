package discovery

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/internal/negotiate"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// Handler serves the paths below for one server. Set its fields before the first request and do not
// change them afterwards.
//
//	/                                   the paths of the server
//	/version                            VersionInfo
//	/api, /apis                         versions and groups; aggregated discovery for clients that ask for it
//	/apis/{group}                       one group
//	/api/{version}                      the resources of a version,
//	/apis/{group}/{version}             and of one in a named group
//	/openapi/v2                         one OpenAPI document of everything, as JSON or protobuf
//	/openapi/v3                         the index of OpenAPI documents
//	/openapi/v3/apis/{group}/{version}  one of them
//
// Those that begin with /api may end with a slash. Other paths are 404, and methods other than GET and HEAD are 405. A request must carry its
// [request.Info].
//
// Documents change only with the generation, so they all change at once (DISC-09). Each document is
// built on its first request. Those of a group version stay until that version changes; the OpenAPI
// v2 document, which is large, is dropped when nobody has asked for it for some time.
type Handler struct {
	// Generation returns the current generation. It is called for each request and must be cheap.
	Generation func() uint64

	// Content returns what the server serves now, which is of the current generation or of a later
	// one. It is called on the first request after a change.
	Content func() Content

	// GroupDomain ends the name of the group apidiscovery. Empty means
	// [request.DefaultGroupDomain].
	GroupDomain string

	// PathPrefix is the path where the server is mounted, such as "/shop"; empty at the root. Paths
	// in documents begin with it.
	PathPrefix string

	// Version is the response of /version.
	Version VersionInfo

	// Paths are further paths of the server for GET /, without the prefix.
	Paths []string

	// ServerAddress is the host and port that /api gives to all clients; empty omits it.
	ServerAddress string

	// Output writes responses. Nil means one without compression.
	Output *negotiate.Output

	// Now returns the time. Nil means time.Now.
	Now func() time.Time

	// Keep is how long the OpenAPI v2 document is kept after the last request for it. Zero means
	// five minutes.
	Keep time.Duration

	// Logger receives the names of OpenAPI documents that cannot be built.
	Logger logr.Logger

	plainOutput negotiate.Output
	building    sync.Mutex              // held while a catalog is built; readers do not take it
	current     atomic.Pointer[catalog] // of the newest generation seen
}

// Content is what discovery and OpenAPI describe. It must not be modified once it was given away.
type Content struct {
	Generation uint64 // increases with every change
	Groups     []Group

	// Swagger builds the OpenAPI v2 document of everything, as JSON or as protobuf. Nil means that
	// there is none.
	Swagger func(protobuf bool) ([]byte, error)
}

// catalog returns the documents of the current generation, or of a later one that exists by now.
func (h *Handler) catalog() *catalog {
	generation := h.Generation()
	if c := h.current.Load(); c != nil && c.generation >= generation {
		return c
	}
	h.building.Lock()
	defer h.building.Unlock()
	previous := h.current.Load()
	if previous != nil && previous.generation >= generation {
		return previous
	}
	c := h.build(h.Content(), previous)
	h.current.Store(c)
	previous.retire()
	return c
}

// Close drops what is kept for a limited time. Requests are still answered.
func (h *Handler) Close() { h.current.Load().retire() }

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h.serve(w, r); err != nil {
		negotiate.WriteError(w, r, err)
	}
}

// serve handles r, or returns an error before it has sent anything.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request) error {
	info := request.From(r.Context())
	if info == nil {
		return status.Internal(errors.New("discovery was asked without a parsed request"))
	}
	path := info.Path
	if strings.HasPrefix(path, "/api") || path == "/version/" {
		path = strings.TrimSuffix(path, "/") // kube-apiserver answers both forms; generated clients ask for /version/
	}
	answer := h.answer(h.catalog(), path)
	if answer == nil {
		return status.NotFound(meta.GroupResource{}, "")
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		return status.MethodNotAllowed(meta.GroupResource{}, r.Method)
	}
	return answer(w, r)
}

// answer returns the function that handles a path, or nil.
func (h *Handler) answer(c *catalog, path string) func(http.ResponseWriter, *http.Request) error {
	if p, ok := c.page(path); ok {
		return func(w http.ResponseWriter, r *http.Request) error { return h.writeDiscovery(w, r, p) }
	}
	if path == swaggerPath && len(c.swagger) > 0 {
		return func(w http.ResponseWriter, r *http.Request) error { return h.writeSwagger(w, r, c.swagger) }
	}
	if path == schemaRoot && c.index != nil {
		return func(w http.ResponseWriter, r *http.Request) error { return h.writeIndex(w, r, c.index) }
	}
	name, ok := strings.CutPrefix(path, schemaRoot+"/")
	if v := c.versions[name]; ok && v != nil && v.schema != nil {
		return func(w http.ResponseWriter, r *http.Request) error { return h.writeSchema(w, r, name, v.schema) }
	}
	return nil
}

// writeDiscovery sends the aggregated document if there is one and the client accepts it, or else
// the plain one.
func (h *Handler) writeDiscovery(w http.ResponseWriter, r *http.Request, p page) error {
	form, err := negotiate.Negotiate(r, negotiate.Offer{GroupDomain: h.GroupDomain, Discovery: p.aggregated != nil, CBORLast: true})
	if err != nil {
		return err
	}
	get := p.plain
	if form.As == negotiate.APIGroupDiscoveryList {
		get = p.aggregated
		w.Header().Set("Cache-Control", "public") // the same for everyone; the entity tag detects changes
	}
	d, err := get()
	if err != nil {
		return status.Internal(err)
	}
	return h.write(w, r, form, d)
}

// writeSwagger sends the OpenAPI v2 document. It is the same for all authorized clients; the entity
// tag detects changes.
func (h *Handler) writeSwagger(w http.ResponseWriter, r *http.Request, forms map[bool]*swagger) error {
	form, err := negotiate.Negotiate(r, negotiate.Offer{JSONOnly: true, Swagger: true})
	if err != nil {
		return err
	}
	doc := forms[form.MediaType == negotiate.Swagger]
	if hash := doc.known(); hash != "" && matches(r.Header["If-None-Match"], entityTag(form, hash)) {
		return h.write(w, r, form, &document{hash: hash}) // without its body, which may have been dropped
	}
	d, err := doc.document()
	if err != nil {
		return status.Internal(err)
	}
	return h.write(w, r, form, d)
}

func (h *Handler) writeIndex(w http.ResponseWriter, r *http.Request, index func() (*document, error)) error {
	form, err := negotiate.Negotiate(r, negotiate.Offer{JSONOnly: true})
	if err != nil {
		return err
	}
	d, err := index()
	if err != nil {
		return status.Internal(err)
	}
	return h.write(w, r, form, d)
}

// writeSchema sends an OpenAPI document. A request with the current hash may be cached forever; one
// with an old hash is redirected to the current document.
func (h *Handler) writeSchema(w http.ResponseWriter, r *http.Request, name string, schema func() (*document, error)) error {
	form, err := negotiate.Negotiate(r, negotiate.Offer{JSONOnly: true})
	if err != nil {
		return err
	}
	d, err := schema()
	if err != nil {
		return status.Internal(err)
	}
	switch hash := request.From(r.Context()).Query.Raw.Get("hash"); hash {
	case "":
	case d.hash:
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", h.now().AddDate(1, 0, 0).UTC().Format(http.TimeFormat))
	default:
		// Do not cache: if the earlier document came back, two cached redirects would point at each
		// other.
		w.Header().Set("Cache-Control", "no-cache, private")
		w.Header().Set("Location", h.schemaURL(name, d))
		w.WriteHeader(http.StatusMovedPermanently)
		return nil
	}
	return h.write(w, r, form, d)
}

// write answers with a document, or tells the client that it has it already (DISC-08).
func (h *Handler) write(w http.ResponseWriter, r *http.Request, form negotiate.Result, d *document) error {
	tag := entityTag(form, d.hash)
	w.Header().Set("Etag", tag)
	w.Header().Add("Vary", "Accept")
	if matches(r.Header["If-None-Match"], tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	output := h.Output
	if output == nil {
		output = &h.plainOutput
	}
	err := output.Write(w, r, form, http.StatusOK, d.body)
	if _, ok := errors.AsType[*status.Error](err); ok {
		return err
	}
	return nil // the client is gone
}

// entityTag names the document with a hash and the form it is written in.
func entityTag(form negotiate.Result, hash string) string {
	suffix := ""
	switch {
	case form.MediaType == negotiate.YAML:
		suffix = "-yaml"
	case form.MediaType == negotiate.CBOR:
		suffix = "-cbor"
	case form.Pretty:
		suffix = "-pretty"
	}
	return `"` + hash + suffix + `"`
}

// matches reports whether an If-None-Match header names a tag, by the weak comparison of RFC 9110,
// 13.1.2.
func matches(fields []string, tag string) bool {
	for _, field := range fields {
		for candidate := range strings.SplitSeq(field, ",") {
			candidate = strings.Trim(candidate, " \t")
			if candidate == "*" || strings.TrimPrefix(candidate, "W/") == tag {
				return true
			}
		}
	}
	return false
}

func (h *Handler) prefix() string { return strings.TrimRight(h.PathPrefix, "/") }

func (h *Handler) domain() string {
	if h.GroupDomain == "" {
		return request.DefaultGroupDomain
	}
	return h.GroupDomain
}

func (h *Handler) keep() time.Duration {
	if h.Keep == 0 {
		return 5 * time.Minute
	}
	return h.Keep
}

func (h *Handler) now() time.Time {
	if h.Now == nil {
		return time.Now()
	}
	return h.Now()
}
