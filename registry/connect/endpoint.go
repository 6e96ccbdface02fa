package connect

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// Endpoint is a subresource that clients connect to, such as `pods/exec` and `pods/proxy`. Its handler
// gets the object, the options from the query, and the request as net/http has it. It answers like any
// handler, or takes over the connection. Upgrade and AcceptWebSocket take over connections, and so does
// any library that works with an http.ResponseWriter and an http.Request.
//
// A connection is authorized by its method (GET is get, POST is create, and so on) on resource/name. It is
// admitted with operation CONNECT and its options as the object. It has no time-out. Its context ends with
// the client, as far as net/http notices that, and when the server begins to stop. A connection that is
// still open some seconds later is closed. The server waits for the handler. When the handler returns or
// panics, the server closes the connection that it took over.
type Endpoint[T, O any] struct {
	Name    string                // the path segment
	Methods []string              // of GET, POST, PUT, PATCH and DELETE; default GET and POST
	Kind    meta.GroupVersionKind // of O; default: the Go type's name, in the group and version of the kind

	// Paths accepts URLs that continue below the subresource. Call.Path holds the rest of the path, and the
	// handler alone reads the query then. Segments are decoded. A segment that is empty, "." or "..", or
	// contains a slash is rejected.
	Paths bool

	// Object finds the name of the object by that in the URL, where this says more: a proxy to services may be asked
	// for https:web:443. Its error is the answer. Authorization, admission and Call.Target have the name of the URL.
	// nil: both are the same.
	Object func(name string) (string, error)

	// Requires lists verbs that a caller needs on the subresource, whatever the method: "create" for a
	// connection that starts something. A WebSocket client can only GET, so without it the right to read
	// is enough for such clients. Default none beside the verb of the method.
	Requires []string

	// Upgrade rejects requests that do not ask for another protocol, or cannot, as over HTTP/2 (400).
	Upgrade bool

	// Origins lists the sites whose pages may connect, such as "https://shop.example.com". Browsers name
	// the site in the header Origin. "*" allows all sites. By default only pages of the server itself may
	// connect. A request for another protocol with a bearer token in the header Authorization is no page's,
	// and is not judged by its origin.
	Origins []string

	// Serve serves one connection. Its error is sent like the error of any hook, unless the response has
	// begun. It must return when r.Context() is done.
	Serve func(w http.ResponseWriter, r *http.Request, call *registry.Call[T], options *O) error
}

// Describe makes the endpoint a Subresource.
func (c Endpoint[T, O]) Describe(of *registry.Resource, env registry.Env) (registry.Subresource, error) {
	fail := func(format string, args ...any) (registry.Subresource, error) {
		return registry.Subresource{}, fmt.Errorf("subresource %q: "+format, append([]any{c.Name}, args...)...)
	}
	if c.Serve == nil {
		return fail("it has no function Serve")
	}
	methods := c.Methods
	if len(methods) == 0 {
		methods = []string{http.MethodGet, http.MethodPost}
	}
	var verbs []string
	for _, m := range methods {
		verb, ok := connectVerbs[m]
		if !ok || slices.Contains(verbs, verb) {
			return fail("method %q cannot be served, or is given twice", m)
		}
		verbs = append(verbs, verb)
	}
	if slices.Contains(c.Requires, "") {
		return fail("a required verb is empty")
	}
	for _, origin := range c.Origins {
		if origin != "*" && !request.IsOrigin(origin) {
			return fail("origin %q is not of the form https://host", origin)
		}
	}
	return registry.Connection[T, O]{
		Name: c.Name, Verbs: verbs, Kind: c.Kind, Paths: c.Paths, Object: c.Object, Requires: c.Requires, Transport: (&policy{upgrade: c.Upgrade, origins: c.Origins}).check,
		Handler: func(call *registry.Call[T], options *O) any {
			return func(w http.ResponseWriter, r *http.Request) error { return c.Serve(w, r, call, options) }
		},
	}.Describe(of, env)
}

var connectVerbs = map[string]string{
	http.MethodGet: request.VerbGet, http.MethodPost: request.VerbCreate, http.MethodPut: request.VerbUpdate,
	http.MethodPatch: request.VerbPatch, http.MethodDelete: request.VerbDelete,
}

// policy says which requests may connect. It is checked before anything is done for a request.
type policy struct {
	upgrade bool
	origins []string
}

func (p *policy) check(r *http.Request) error {
	if err := p.checkOrigin(r); err != nil {
		return err
	}
	if request.AsksUpgrade(r) {
		if r.ContentLength != 0 || len(r.TransferEncoding) > 0 {
			// Nobody can tell where the body ends and the other protocol begins (H6).
			return status.BadRequest("a request for another protocol has no body")
		}
	} else if p.upgrade {
		if r.ProtoMajor != 1 {
			return status.BadRequest("this needs a connection of its own, which %s does not have; use HTTP/1.1 with the headers Connection and Upgrade", r.Proto)
		}
		return status.BadRequest("Upgrade request required")
	}
	return nil
}

// checkOrigin rejects pages of other sites. A browser lets them connect with the certificate of its user
// (H10). Programs may name any origin: websocket-client 1.2 for Python names http://host when it speaks TLS.
func (p *policy) checkOrigin(r *http.Request) error {
	if slices.Contains(p.origins, "*") || !request.FromOtherSite(r, p.origins) || isProgram(r) {
		return nil
	}
	return status.Forbidden(meta.GroupResource{}, "", "").WithMessage("pages of this origin may not connect")
}

// isProgram reports whether r asks for another protocol and came with a bearer token in the header
// Authorization. No page can send that: it cannot set the header of a WebSocket, nor Upgrade in any
// other request. Other schemes do not count, since a browser adds passwords by itself. Neither does a
// token in a subprotocol, which a page can name.
func isProgram(r *http.Request) bool {
	x := request.ExchangeFrom(r.Context())
	if x == nil || x.Received == nil || !request.AsksUpgrade(r) {
		return false
	}
	scheme, _, _ := strings.Cut(strings.Join(x.Received.Header["Authorization"], ","), " ")
	return strings.EqualFold(scheme, "Bearer")
}
