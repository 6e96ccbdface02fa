package request

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// DefaultGroupDomain is the domain part of API group names unless a server sets another one
// (MODEL-03).
const DefaultGroupDomain = "k8s.io"

// AllowedMethods is the value of the Allow header for a 405 of [Parser.Parse].
const AllowedMethods = "GET, HEAD, POST, PUT, PATCH, DELETE"

// Parser parses the requests of one server. It is immutable and safe for concurrent use.
type Parser struct {
	prefix      []string // decoded segments
	groupDomain string
	watchPaths  bool
}

// NewParser returns a parser for a server that is mounted below prefix, such as "/shop". The prefix
// is given decoded, with or without a trailing slash; "" means the root. groupDomain is used in the
// kinds of validation errors; "" means [DefaultGroupDomain].
func NewParser(prefix, groupDomain string) *Parser {
	p := &Parser{groupDomain: groupDomain}
	if p.groupDomain == "" {
		p.groupDomain = DefaultGroupDomain
	}
	for segment := range strings.SplitSeq(prefix, "/") {
		if segment != "" {
			p.prefix = append(p.prefix, segment)
		}
	}
	return p
}

// WithWatchPaths returns a parser that also accepts the old form of a watch (PATH-24):
// /api/{version}/watch/… and /apis/{group}/{version}/watch/…, followed by the path of a collection
// or of one object.
func (p *Parser) WithWatchPaths() *Parser {
	with := *p
	with.watchPaths = true
	return &with
}

// Parse parses one request for a server below prefix, with the default group domain. Servers keep a
// [Parser].
func Parse(r *http.Request, prefix string) (*Info, error) {
	return NewParser(prefix, "").Parse(r)
}

// Parse reads the method, path and query of a request, and nothing else of it. It returns either an
// Info or a *status.Error:
//
//   - 405: a method outside [AllowedMethods], including lower-case ones; PUT and PATCH of a
//     collection; POST to an object; and a watch requested with HEAD.
//   - 404: a path outside the prefix; an empty segment ("//", or a trailing slash of a resource path
//     without a subresource); and the old form of a watch, unless the parser accepts it.
//   - 400: everything else that does not parse. The message says what is wrong and where.
//
// The target may be in origin form or in absolute form; both give the same Info. The forms "*" and
// authority are rejected.
func (p *Parser) Parse(r *http.Request) (*Info, error) {
	x := new(Exchange)
	if err := x.Parse(p, r); err != nil {
		return nil, err
	}
	if x.Misused != nil || x.Unread != nil {
		return nil, cmp.Or(x.Misused, x.Unread)
	}
	return x.Info.Load(), nil
}

// Parse sets what the request asks for. After an error nothing is set.
//
// A method that the path cannot have is not an error here, if the path can be read. Parse sets Misused
// then, and Info with the verb that the sender needs a right to before they are told. Nor is a path or a
// query that cannot be read. Parse sets Unread then, so that the audit record names who has sent it, and
// what for (AUD-07, AUD-11). Info has the path as it was sent, if that cannot be read.
func (x *Exchange) Parse(p *Parser, r *http.Request) error {
	method := r.Method
	if method == "" {
		method = http.MethodGet // as in net/http, for requests made in process
	}
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		if err := x.parse(p, r, method); err != nil {
			x.lose(r, method, err)
		}
		return nil
	}
	unknown := status.MethodNotAllowed(meta.GroupResource{}, method)
	if len(method) > maxMethod {
		return unknown
	}
	if x.parse(p, r, method) != nil {
		x.lose(r, method, unknown)
		return nil //nolint:nilerr // the answer is about the method, whatever the path
	}
	x.Misused, x.Unread = unknown, nil
	return nil
}

// lose sets what is known of a request whose path cannot be read.
func (x *Exchange) lose(r *http.Request, method string, err error) {
	x.info = Info{Path: r.URL.Path}
	x.info.Query.Pretty = PrettyParameter(r.URL.RawQuery)
	_ = x.info.setVerb(method) // of a path that is no resource, which every method can have
	x.Misused, x.Unread = nil, err
	x.Info.Store(&x.info)
}

// maxMethod bounds a method that authorizers and audit records are told of. It is longer than any
// registered one.
const maxMethod = 32

func (x *Exchange) parse(p *Parser, r *http.Request, method string) error {
	info := &x.info
	info.Query.groupDomain = p.groupDomain
	segments, slash, err := splitPath(r.URL, info.room[:0])
	if err != nil {
		return err
	}
	if len(segments) < len(p.prefix) || !slices.Equal(segments[:len(p.prefix)], p.prefix) {
		return status.NotFound(meta.GroupResource{}, "").WithMessage(fmt.Sprintf("the server could not find the requested resource: its paths begin with /%s, which must not be stripped", strings.Join(p.prefix, "/")))
	}
	info.Segments = segments[len(p.prefix):]
	info.Query.Raw, x.Unread = parseQuery(r.URL.RawQuery)
	info.Path = r.URL.Path // which is the segments, joined
	if len(p.prefix) > 0 || len(segments) == 0 {
		info.Path = joined(info.Segments, slash)
	}
	info.WatchPath = p.watchPaths
	if err := info.setShape(slash); err != nil {
		return err
	}
	err = info.setVerb(method)
	switch {
	case status.IsMethodNotAllowed(err): // nothing is done, so the query does not matter
		x.Misused, x.Unread = err, nil
	case err != nil:
		x.Unread = err
	case x.Unread == nil:
		x.Unread = info.readQuery()
	}
	if x.Unread != nil {
		info.Query.Pretty = PrettyParameter(r.URL.RawQuery) // whatever else of it cannot be read
	}
	x.Info.Store(info)
	return nil
}

// readQuery reads the parameters, and what they say about the name.
func (i *Info) readQuery() error {
	if err := i.Query.read(i); err != nil {
		return err
	}
	if i.WatchPath && i.Name != "" {
		if err := i.selectName(); err != nil {
			return err
		}
	}
	if i.Verb == VerbList || i.Verb == VerbWatch {
		// One object can be listed or watched with the right to its name (LIST-36). A value that
		// cannot be a name stays in the selector; the list then finds nothing (security vector P9).
		if name, ok := i.Query.FieldSelector.Exact("metadata.name"); ok && validSegment(name) {
			i.Name = name
		}
	}
	return nil
}

// joined returns the path with the given segments.
func joined(segments []string, slash bool) string {
	if slash && len(segments) > 0 {
		return "/" + strings.Join(segments, "/") + "/"
	}
	return "/" + strings.Join(segments, "/")
}

// setShape recognises the shape of the path (PATH-01 to PATH-09). slash reports whether the path
// ended with one.
func (i *Info) setShape(slash bool) error {
	underAPI := len(i.Segments) > 0 && (i.Segments[0] == corePrefix || i.Segments[0] == groupPrefix)
	switch {
	case underAPI && i.Segments[0] == corePrefix && len(i.Segments) > 2:
		i.APIPrefix, i.Version = corePrefix, i.Segments[1]
		return i.setResource(i.Segments[2:], slash)
	case underAPI && i.Segments[0] == groupPrefix && len(i.Segments) > 3:
		i.APIPrefix, i.Group, i.Version = groupPrefix, i.Segments[1], i.Segments[2]
		return i.setResource(i.Segments[3:], slash)
	}
	return nil // shorter ones are discovery documents, with or without a slash at the end
}

// setResource reads what follows group and version:
// [namespaces/{namespace}/]{resource}[/{name}[/{subresource}[/{below}…]]]. A path can end with a
// slash only below a subresource.
func (i *Info) setResource(rest []string, slash bool) error {
	i.IsResource = true
	old := rest[0] == "watch"
	if i.WatchPath = i.WatchPath && old; old {
		if rest = rest[1:]; !i.WatchPath || len(rest) == 0 || slash {
			return status.NotFound(meta.GroupResource{}, "") // PATH-24, security vector Z1
		}
	}
	// Three segments that begin with "namespaces" are a collection within a namespace, unless the
	// third is "status" or "finalize": then they are a subresource of the namespace itself.
	if rest[0] == namespaces && len(rest) > 2 && rest[2] != "status" && rest[2] != "finalize" {
		i.Namespace, i.NamespaceScopedPath = rest[1], true
		rest = rest[2:]
	}
	if slash && len(rest) < 3 {
		return status.NotFound(meta.GroupResource{}, "")
	}
	i.Resource = rest[0]
	if len(rest) > 1 {
		i.Name = rest[1]
	}
	if len(rest) > 2 {
		i.Subresource = rest[2]
		if old {
			return status.NotFound(meta.GroupResource{}, "") // subresources cannot be watched
		}
	}
	if len(rest) > 3 {
		i.Below = "/" + strings.Join(rest[3:], "/")
	}
	if slash {
		i.Below += "/"
	}
	return nil
}

// setVerb classifies the request (PATH-16, PATH-17, PATH-25). It sets Query.Watch, because that
// decides the verb.
func (i *Info) setVerb(method string) error {
	if !i.IsResource {
		i.Verb = strings.ToLower(method)
		if method == http.MethodHead {
			i.Verb = VerbGet
		}
		return nil
	}
	collection := i.Name == ""
	object := !collection && i.Subresource == ""
	if i.WatchPath {
		i.Verb, i.Query.Watch = VerbWatch, true
		if method != http.MethodGet {
			return status.MethodNotAllowed(meta.GroupResource{}, method)
		}
		return nil
	}
	switch method {
	case http.MethodPost:
		i.Verb = VerbCreate
		if object { // it must not reach a handler that would take the name from elsewhere
			return misplaced(method, "creates an object in the path of its collection, without a name")
		}
	case http.MethodPut:
		i.Verb = VerbUpdate
	case http.MethodPatch:
		i.Verb = VerbPatch
	case http.MethodDelete:
		i.Verb = VerbDelete
		if collection {
			i.Verb = VerbDeleteCollection
		}
	case http.MethodGet, http.MethodHead:
		return i.setReadVerb(method, collection)
	default: // no verb: only a right to all verbs gives it
		return status.MethodNotAllowed(meta.GroupResource{}, method)
	}
	if collection && (method == http.MethodPut || method == http.MethodPatch) {
		return misplaced(method, "needs the name of an object in its path")
	}
	return nil
}

// misplaced rejects a method and says which path was probably meant.
func misplaced(method, meant string) error {
	err := status.MethodNotAllowed(meta.GroupResource{}, method)
	return err.WithMessage(err.Error() + ": " + method + " " + meant)
}

func (i *Info) setReadVerb(method string, collection bool) error {
	if !collection {
		i.Verb = VerbGet // watch has no meaning for one object
		return nil
	}
	i.Verb = VerbList
	watch, err := Single(i.Query.Raw, "watch")
	if err != nil {
		return err
	}
	if watch != nil && Boolean(*watch) {
		i.Verb, i.Query.Watch = VerbWatch, true
		if method == http.MethodHead {
			return status.MethodNotAllowed(meta.GroupResource{}, method) // a stream without a body would stay open for nothing
		}
	}
	return nil
}

// selectName makes a watch by path select the object that the path names.
func (i *Info) selectName() (err error) {
	fields := i.Query.FieldSelector
	if name, ok := fields.Exact("metadata.name"); !fields.Empty() && (!ok || name != i.Name) {
		return status.BadRequest("the field selector does not select the object that the path names, %s", quote(i.Name))
	}
	name := meta.FieldRequirement{Field: "metadata.name", Op: meta.Equals, Value: i.Name}
	i.Query.FieldSelector, err = meta.NewFieldSelector(append(fields.Requirements(), name)...)
	return err
}
