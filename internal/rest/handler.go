package rest

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/negotiate"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
)

// Options set a Handler up. The zero value means the documented defaults.
type Options struct {
	Output *negotiate.Output // how answers are written; default: uncompressed
	Logger logr.Logger

	// MayCreate is asked before a PUT creates an object that was absent (UPDATE-10); its error is the answer. Nil means
	// that whoever may update may create.
	MayCreate func(ctx context.Context, info *request.Info) error

	// MayIgnoreReadErrors is asked before an object that cannot be read is deleted on demand; its error is the answer. Nil
	// means that everybody may who may delete.
	MayIgnoreReadErrors func(ctx context.Context, info *request.Info) error

	// BookmarkEvery is about how often a watch that allows it is sent a bookmark. Default one minute (WATCH-29).
	BookmarkEvery time.Duration

	// MinWatch is the least time after which a watch without timeoutSeconds is ended; the greatest is twice that. Default 30
	// minutes (WATCH-28).
	MinWatch time.Duration

	// WatchWrite is how long the bytes of one batch of events may take to leave; a client that reads more slowly loses its
	// stream and resumes it. Default 5 seconds (W7).
	WatchWrite time.Duration

	// Gone answers a watch that starts at an expired version with HTTP 410 instead of an ERROR event (READ-01).
	Gone bool

	// NoStreamingLists refuses watches that ask for initial events and the mark that ends them (WLIST-01).
	NoStreamingLists bool

	// Shards lets lists and watches select objects by the hash of a field. By default that is ignored.
	Shards bool

	// WebSockets serves a watch over a WebSocket to a client that asks for one (WATCH-32). By default it is answered with the
	// ordinary stream.
	WebSockets bool

	// Deprecated tells whether a version is deprecated by now (VER-17). Default: all are that say so.
	Deprecated func(*registry.Deprecation) bool

	// Draining, when it is done, ends all watches and refuses new ones: the server is about to stop. Default: never.
	Draining context.Context
}

// Handler serves the resources of an engine. It is safe for concurrent use.
type Handler struct {
	engine *engine.Engine
	domain string // of the system's own groups
	opts   Options
	plain  *negotiate.Output // for answers that must not be compressed
	proto  messages
	chunks sync.Pool // of *[heldChunk]byte

	connected calls
}

// New returns a handler for the resources of e, whatever they are at the time of a request.
func New(e *engine.Engine, o Options) *Handler {
	if o.Output == nil {
		o.Output = &negotiate.Output{}
	}
	if o.BookmarkEvery <= 0 {
		o.BookmarkEvery = time.Minute
	}
	if o.MinWatch <= 0 {
		o.MinWatch = 30 * time.Minute
	}
	if o.WatchWrite <= 0 {
		o.WatchWrite = 5 * time.Second
	}
	if o.Deprecated == nil {
		o.Deprecated = func(*registry.Deprecation) bool { return true }
	}
	if o.Draining == nil {
		o.Draining = context.Background()
	}
	return &Handler{engine: e, domain: e.GroupDomain(), opts: o, plain: &negotiate.Output{MaxYAML: o.Output.MaxYAML}, proto: describeMessages()}
}

// call is one request on its way through the handler.
type call struct {
	*Handler
	w      http.ResponseWriter
	r      *http.Request
	info   *request.Info
	served *engine.Served
	at     *engine.Resolved
	sub    *engine.Subresource // nil for objects themselves, and collections
	shown  *engine.Kind        // the documents of the answer: objects of the kind, or what sub shows instead
	yaml   []byte              // the body as it was sent, if that may be YAML
}

// Find sets the kind that a parsed request is for. It is looked up once: the request ends with the kind that it began
// with, whatever is installed or removed meanwhile.
func (h *Handler) Find(x *request.Exchange) {
	info := x.Info.Load()
	if !info.IsResource {
		return
	}
	x.Streams = info.Verb == request.VerbWatch
	if served, ok := h.engine.Set().Lookup(meta.GroupVersionResource{Group: info.Group, Version: info.Version, Resource: info.Resource}); ok {
		x.Kind = served
		if info.Subresource != "" {
			sub := Subresource(x)
			x.Streams = sub != nil && sub.Streams(info.Verb)
		}
	}
}

// Kind returns the kind that Find found, nil for none.
func Kind(x *request.Exchange) *engine.Served {
	served, _ := x.Kind.(*engine.Served)
	return served
}

// Subresource returns the subresource that a request is for, nil for none.
func Subresource(x *request.Exchange) *engine.Subresource {
	served, name := Kind(x), x.Info.Load().Subresource
	if served == nil || name == "" {
		return nil
	}
	sub, ok := served.Kind.Endpoint(name)
	if !ok {
		return nil
	}
	return sub
}

// ServeHTTP answers one request for a resource that Find has seen.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h.serve(w, r); err != nil {
		h.fail(w, r, err)
	}
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) error {
	x := request.ExchangeFrom(r.Context())
	served := Kind(x)
	if served == nil {
		return engine.NotServed()
	}
	c := &call{Handler: h, w: w, r: r, info: x.Info.Load(), served: served, shown: served.Kind}
	err := c.resolve()
	if err == nil {
		if d := served.Resource.Deprecated; d != nil && h.opts.Deprecated(d) {
			registry.Warn(r.Context(), served.Kind.Warning())
		}
		err = c.answer()
	}
	if err != nil && status.IsMethodNotAllowed(err) {
		w.Header().Set("Allow", c.methods())
	}
	return err
}

// output returns what writes the answer.
func (c *call) output() *negotiate.Output {
	if c.served.Resource.NoCompression {
		return c.plain
	}
	return c.opts.Output
}

// resolve finds what the path names.
func (c *call) resolve() (err error) {
	if c.at, err = c.engine.ResolveIn(c.served, c.info.Verb, c.target(c.info.Verb)); err != nil {
		return err
	}
	c.at.Requested = true
	if c.info.WatchPath && c.info.Name != "" && !c.info.NamespaceScopedPath && !c.served.Resource.ClusterScoped {
		return engine.NotServed() // a path of one object names its namespace
	}
	if c.sub = c.at.Subresource; c.sub == nil {
		return nil
	}
	if c.info.Below != "" && !c.sub.Paths() {
		return engine.NotServed() // below a subresource are connections alone, and only those that say so
	}
	if d := c.sub.Answer(c.info.Verb); d != nil {
		c.shown = d
	}
	return nil
}

// target returns what a verb acts on at the path of the request.
func (c *call) target(verb string) registry.Target {
	t := registry.Target{
		Resource:    meta.GroupVersionResource{Group: c.info.Group, Version: c.info.Version, Resource: c.info.Resource},
		Subresource: c.info.Subresource, Namespace: c.info.Namespace, Name: c.info.Name,
	}
	switch verb {
	case request.VerbList, request.VerbWatch, request.VerbDeleteCollection:
		t.Name = "" // authorization saw one that comes from a selector
	}
	return t
}

// answer does what was asked for.
func (c *call) answer() error {
	if c.sub != nil && c.sub.Connects() {
		return c.connect()
	}
	if !c.reads() {
		if err := c.checkConditions(); err != nil {
			return err
		}
	}
	switch c.info.Verb {
	case request.VerbGet:
		return c.get()
	case request.VerbList:
		return c.list()
	case request.VerbWatch:
		return c.watch()
	case request.VerbCreate:
		return c.create()
	case request.VerbUpdate:
		return c.update()
	case request.VerbPatch:
		return c.patch()
	case request.VerbDelete:
		return c.delete()
	case request.VerbDeleteCollection:
		return c.deleteCollection()
	}
	return status.MethodNotAllowed(c.served.Resource.GroupResource(), c.info.Verb)
}

// fail answers with an error. What the client may not know goes to the log.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	if status.ReasonOf(err) == meta.ReasonInternalError {
		h.opts.Logger.Error(err, "a request failed", guard.WithStack(err,
			"cause", causeText(err), "auditID", request.ExchangeFrom(r.Context()).ID, "method", r.Method, "path", r.URL.EscapedPath())...)
	}
	negotiate.WriteError(w, r, err)
}

func causeText(err error) string {
	if cause := errors.Unwrap(status.From(err)); cause != nil {
		return cause.Error()
	}
	return ""
}

// offer says in which forms an answer about objects can be given. The document of a virtual kind has no metadata to show
// alone and no row in a table.
func (c *call) offer() negotiate.Offer {
	stored := c.shown.Virtual == nil
	return negotiate.Offer{GroupDomain: c.domain, Table: stored && !c.shown.NoTable, Metadata: stored, Protobuf: c.shown.Messages != nil}
}

// shards reads the parameter shardSelector, which nobody else looks at. An empty one selects everything.
func (c *call) shards() (*meta.Shards, error) {
	if !c.opts.Shards {
		return nil, nil
	}
	text, err := request.Single(c.info.Query.Raw, "shardSelector")
	if err != nil || text == nil || *text == "" {
		return nil, err
	}
	shards, err := meta.ParseShards(*text)
	if err != nil {
		return nil, status.BadRequest("invalid shard selector: %v", err)
	}
	return shards, nil
}

// readRequest translates the query of a read.
func readRequest(q *request.Query) (registry.ListRequest, error) {
	lr := registry.ListRequest{Labels: q.LabelSelector, Fields: q.FieldSelector, Limit: q.Limit, Continue: q.Continue}
	switch {
	case q.Continue != "" || q.ResourceVersion == "":
		return lr, nil // the token, or the newest state
	case q.ResourceVersion == "0":
		lr.AnyState = true
		return lr, nil
	}
	rev, err := storage.ParseRevision(q.ResourceVersion)
	if err != nil {
		return lr, status.BadRequest("invalid resource version: %v", err)
	}
	lr.Version, lr.Match = rev, meta.ResourceVersionMatchNotOlderThan
	if q.ResourceVersionMatch == request.MatchExact || q.ResourceVersionMatch == "" && q.Limit > 0 {
		lr.Match = meta.ResourceVersionMatchExact // LIST-06, LIST-12, LIST-15
	}
	return lr, nil
}
