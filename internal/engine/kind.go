package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/kindwright/kindwright/apply"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/protobuf"
	"github.com/kindwright/kindwright/internal/table"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// Kind is a kind as the engine works with it: a copy of its description with every default filled
// in, and what was made of it once for all requests. It is never changed, so engines share it with
// their forks.
type Kind struct {
	*registry.Resource // our own copy

	stored       *Kind // the stored form; itself where this is it
	layout       *table.Layout
	messages     *protobuf.Descriptor
	fingerprint  uint64      // of what records look like: of schema, version and kind
	selected     *json.Paths // where the selectable fields lie
	subresources []*Subresource
}

// compile makes a kind of a description, which it only reads. stored is the kind whose objects a
// further form shows, nil for a kind that is stored in the described form.
func (e *Engine) compile(description *registry.Resource, stored *Kind) (*Kind, error) {
	own := *description
	if own.Stored != nil {
		conversion := *own.Stored
		conversion.Resource = stored.Resource
		own.Stored = &conversion
	}
	completed, err := own.Completed()
	if err != nil {
		return nil, err
	}
	r, err := e.compileDocument(completed)
	if err == nil {
		err = e.compileSubresources(r, completed.Subresources)
	}
	if err != nil {
		return nil, fmt.Errorf("kind %s (%s): %w", own.Names.Kind, own.APIVersion(), err)
	}
	r.fingerprint, r.selected = r.recordFingerprint(), r.selectedPaths()
	if stored != nil {
		r.stored = stored
		r.inherit(stored)
	}
	return r, nil
}

// compileDocument prepares what is the same for objects and for other documents.
func (e *Engine) compileDocument(r *registry.Resource) (*Kind, error) {
	out := &Kind{Resource: r}
	out.stored = out
	var err error
	if out.layout, err = table.New(r.Columns); err != nil {
		return nil, err
	}
	if r.Type != nil {
		if out.messages, _, err = e.messages.Describe(r.Type); err != nil {
			return nil, fmt.Errorf("Go type %s: %w", r.Type, err)
		}
	}
	return out, nil
}

func (e *Engine) compileSubresources(r *Kind, described []registry.Subresource) error {
	for i := range described {
		s, err := e.compileSubresource(&described[i])
		if err != nil {
			return fmt.Errorf("subresource %q: %w", described[i].Name, err)
		}
		r.subresources = append(r.subresources, s)
	}
	return nil
}

// base returns the stored form of the kind.
func (r *Kind) base() *Kind { return r.stored }

// convert returns an object of r in another form of the same objects, as a request for that one
// would show it.
func (r *Kind) convert(ctx context.Context, t registry.Tree, to *Kind) (registry.Tree, error) {
	if r.base() != to.base() {
		return nil, status.Internal(fmt.Errorf("%s and %s are not forms of the same objects", r.GroupVersionKind(), to.GroupVersionKind()))
	}
	if r == to {
		return t, nil
	}
	stored, err := r.ToStored(ctx, t)
	if err != nil {
		return nil, err
	}
	return to.FromStored(ctx, to.base().Schema.Default(stored))
}

// describedBy tells whether a description is of what the kind is: the same resource, stored in the
// same place and the same shape.
func (r *Kind) describedBy(d *registry.Resource) bool {
	return r.GroupVersionResource() == d.GroupVersionResource() && d.Schema != nil && d.Schema.Fingerprint() == r.Schema.Fingerprint()
}

// Layout returns the prepared columns of tables.
func (r *Kind) Layout() *table.Layout { return r.layout }

// Messages describes the objects as protobuf messages; nil serves the kind as JSON and YAML alone.
func (r *Kind) Messages() *protobuf.Descriptor { return r.messages }

// Subresources returns the paths below an object, those included that belong to the stored form.
func (r *Kind) Endpoints() []*Subresource { return r.subresources }

// Endpoint returns the subresource of that name.
func (r *Kind) Endpoint(name string) (*Subresource, bool) {
	for _, s := range r.subresources {
		if s.Name == name {
			return s, true
		}
	}
	return nil, false
}

// inherit gives a form the subresources of the stored objects that it has none of its own for. A
// status is a field of the kind, which a form has or has not.
func (r *Kind) inherit(stored *Kind) {
	for _, s := range stored.subresources {
		if _, own := r.Endpoint(s.Name); !own && s.Name != "status" {
			r.subresources = append(r.subresources, s.inherited(r))
		}
	}
}

// Subresource is a Subresource as the engine works with it.
type Subresource struct {
	*registry.Subresource
	view     *view               // nil: the object itself is exchanged
	handlers map[string]*handler // by verb

	// merge is what is stored when sent comes in; nil where the subresource does not exchange the
	// kind.
	merge func(ctx context.Context, old, sent registry.Tree) (registry.Tree, error)

	// stored says that the subresource belongs to the stored form of the objects, and is reached
	// through another one.
	stored bool
}

// handler is a Handler as the engine works with it.
type handler struct {
	*registry.Handler
	body, answer *Kind
	options      *options
}

func (e *Engine) compileSubresource(s *registry.Subresource) (*Subresource, error) {
	out := &Subresource{Subresource: s, handlers: map[string]*handler{}}
	if s.View != nil {
		document, err := e.compileDocument(s.View.Document)
		if err != nil {
			return nil, err
		}
		out.view = &view{Part: s.View, document: document}
		if s.View.Replicas != nil {
			if out.view.owners, err = apply.New([]apply.Version{{APIVersion: apply.ScaleVersion, Schema: document.Schema}}, nil); err != nil {
				return nil, err
			}
		}
	}
	if s.Merge != nil && s.View == nil {
		out.merge = func(_ context.Context, old, sent registry.Tree) (registry.Tree, error) {
			return s.Merge(old, sent), nil
		}
	}
	for verb, h := range s.Handlers {
		compiled, err := e.compileHandler(h)
		if err != nil {
			return nil, err
		}
		out.handlers[verb] = compiled
	}
	return out, nil
}

func (e *Engine) compileHandler(h *registry.Handler) (_ *handler, err error) {
	out := &handler{Handler: h, options: compileOptions(h.Options)}
	if h.Body != nil {
		if out.body, err = e.compileDocument(h.Body); err != nil {
			return nil, err
		}
	}
	switch h.Answer {
	case nil:
	case h.Body:
		out.answer = out.body
	default:
		out.answer, err = e.compileDocument(h.Answer)
	}
	return out, err
}

// inherited is a subresource of stored objects as it is reached through another form of them, r.
func (s *Subresource) inherited(r *Kind) *Subresource {
	out := *s
	if s.merge == nil {
		out.stored = true
		return &out
	}
	described := *s.Subresource
	described.Fields = nil
	out.Subresource = &described
	out.merge = func(ctx context.Context, old, sent registry.Tree) (registry.Tree, error) {
		storedOld, err := r.ToStored(ctx, old)
		if err != nil {
			return nil, err
		}
		storedSent, err := r.ToStored(ctx, sent)
		if err != nil {
			return nil, err
		}
		merged, err := s.merge(ctx, storedOld, storedSent)
		if err != nil {
			return nil, err
		}
		return r.FromStored(ctx, merged)
	}
	return &out
}

// Document describes what a verb of the subresource takes: nil where that is the kind itself, and
// where it takes nothing.
func (s *Subresource) Document(verb string) *Kind {
	switch h := s.handlers[verb]; {
	case h != nil:
		return h.body
	case s.view != nil && verb != "create":
		return s.view.document
	}
	return nil
}

// Answer describes what a verb of the subresource answers: nil where that is the kind itself, and
// where it is no object.
func (s *Subresource) Answer(verb string) *Kind {
	switch h := s.handlers[verb]; {
	case h != nil && h.Run != nil:
		return h.answer
	case s.view != nil:
		return s.view.document
	}
	return nil
}

// GroupVersionKind returns the kind that discovery names for the subresource of a resource
// (DISC-06).
func (s *Subresource) GroupVersionKind(of *Kind) meta.GroupVersionKind {
	if s.view != nil {
		return s.view.document.GroupVersionKind()
	}
	for _, verb := range []string{"create", "update", "get"} {
		switch h := s.handlers[verb]; {
		case h == nil:
		case h.body != nil:
			return h.body.GroupVersionKind()
		case h.answer != nil:
			return h.answer.GroupVersionKind()
		}
	}
	for _, h := range s.handlers {
		if h.Connect != nil && h.options != nil && h.options.kind.Kind != "" {
			return h.options.kind
		}
	}
	return of.GroupVersionKind()
}

// Acts tells whether a verb of the subresource is an action.
func (s *Subresource) Acts(verb string) bool {
	h := s.handlers[verb]
	return h != nil && h.Run != nil && h.body != nil
}

// Asks tells whether a get is a question, which is asked with Engine.Ask.
func (s *Subresource) Asks() bool {
	h := s.handlers["get"]
	return h != nil && h.Run != nil
}

// Connects tells whether the subresource is one that clients connect to.
func (s *Subresource) Connects() bool {
	for _, h := range s.handlers {
		if h.Connect != nil {
			return true
		}
	}
	return false
}

// Transport returns what a connection asks of requests, nil for other subresources, and whether
// URLs may go on below it.
func (s *Subresource) Transport() (transport any, paths bool) {
	for _, h := range s.handlers {
		if h.Connect != nil {
			return h.Transport, h.Paths
		}
	}
	return nil, false
}

// Streams tells whether a request may take as long as it likes: it is a stream, or a connection.
func (s *Subresource) Streams(verb string) bool {
	h := s.handlers[verb]
	return h != nil && (h.Open != nil || h.Connect != nil)
}

// MediaType returns what a get of the subresource sends where that is no object, "" elsewhere.
func (s *Subresource) MediaType() string {
	if h := s.handlers["get"]; h != nil {
		return h.MediaType
	}
	return ""
}

// Patches returns the kinds of patches that the subresource of a kind takes.
func (s *Subresource) Patches(of *Kind) []registry.PatchType {
	switch {
	case !slices.Contains(s.Verbs, "patch"):
		return nil
	case s.view != nil:
		return s.view.patches()
	}
	return of.Patches()
}

// readsObject tells whether a get shows the object itself, or the view of it.
func (s *Subresource) readsObject() bool { return s.handlers["get"] == nil }
