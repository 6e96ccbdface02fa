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
// Other paths are 404, and methods other than GET and HEAD are 405. A request must carry its
// [request.Info].
//
// Documents change only with the generation of the source, so they all change at once (DISC-09).
type Handler struct {
	// Source returns the current groups and the builders of their OpenAPI documents. It is called
	// for each request and must be cheap. The generation must increase whenever the rest changes.
	// The results must not be modified afterwards.
	Source func() (generation uint64, groups []Group, schemas Schemas)

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

	// Logger receives the names of OpenAPI documents that cannot be built.
	Logger logr.Logger

	plainOutput negotiate.Output
	building    sync.Mutex              // held while a catalog is built; readers do not take it
	current     atomic.Pointer[catalog] // of the newest generation seen
}

// catalog returns the documents of the current generation, or of a later one that exists by now.
func (h *Handler) catalog() (*catalog, error) {
	generation, groups, schemas := h.Source()
	if c := h.current.Load(); c != nil && c.generation >= generation {
		return c, nil
	}
	h.building.Lock()
	defer h.building.Unlock()
	if c := h.current.Load(); c != nil && c.generation >= generation {
		return c, nil
	}
	c, err := h.build(generation, groups, schemas)
	if err != nil {
		return nil, err
	}
	h.current.Store(c)
	return c, nil
}

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
	c, err := h.catalog()
	if err != nil {
		return status.Internal(err)
	}
	answer := h.answer(c, info.Path)
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
	if d, ok := c.plain[path]; ok {
		return func(w http.ResponseWriter, r *http.Request) error {
			return h.writeDiscovery(w, r, d, c.aggregated[path])
		}
	}
	if path == swaggerPath && c.swagger != nil {
		return func(w http.ResponseWriter, r *http.Request) error { return h.writeSwagger(w, r, c.swagger) }
	}
	if path == schemaRoot && c.index != nil {
		return func(w http.ResponseWriter, r *http.Request) error { return h.writeIndex(w, r, c.index) }
	}
	name, _ := strings.CutPrefix(path, schemaRoot+"/")
	if schema, ok := c.schemas[name]; ok && path != name {
		return func(w http.ResponseWriter, r *http.Request) error { return h.writeSchema(w, r, name, schema) }
	}
	return nil
}

// writeDiscovery sends the aggregated document if there is one and the client accepts it, or else
// the plain one.
func (h *Handler) writeDiscovery(w http.ResponseWriter, r *http.Request, plain, aggregated *document) error {
	form, err := negotiate.Negotiate(r, negotiate.Offer{GroupDomain: h.GroupDomain, Discovery: aggregated != nil})
	if err != nil {
		return err
	}
	d := plain
	if form.As == negotiate.APIGroupDiscoveryList {
		d = aggregated
		w.Header().Set("Cache-Control", "public") // the same for everyone; the entity tag detects changes
	}
	return h.write(w, r, form, d)
}

// writeSwagger sends the OpenAPI v2 document. It is the same for all authorized clients; the entity
// tag detects changes.
func (h *Handler) writeSwagger(w http.ResponseWriter, r *http.Request, swagger func(negotiate.MediaType) (*document, error)) error {
	form, err := negotiate.Negotiate(r, negotiate.Offer{JSONOnly: true, Swagger: true})
	if err != nil {
		return err
	}
	d, err := swagger(form.MediaType)
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
	tag := entityTag(form, d)
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

// entityTag names the document and the form it is written in.
func entityTag(form negotiate.Result, d *document) string {
	suffix := ""
	switch {
	case form.MediaType == negotiate.YAML:
		suffix = "-yaml"
	case form.Pretty:
		suffix = "-pretty"
	}
	return `"` + d.hash + suffix + `"`
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

func (h *Handler) now() time.Time {
	if h.Now == nil {
		return time.Now()
	}
	return h.Now()
}
