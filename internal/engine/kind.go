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

// Kind is a compiled kind: a copy of its description with every default filled in, and what the
// engine computes from it once for all requests. It never changes, so engines share it with their
// forks.
type Kind struct {
	*registry.Resource // our own copy

	// Messages describes the objects as protobuf messages. If it is nil, the kind is served only as
	// JSON and YAML.
	Messages *protobuf.Descriptor

	Verbs []string // of the kind itself, in the order of discovery documents

	// Patches lists the types that the kind accepts (PATCH-05 to PATCH-10), apply first. The documents
	// of views accept no apply, except for a Scale. Handlers, the 415 message and OpenAPI documents
	// read this list; a 415 names the types in this order.
	Patches []meta.PatchType

	apiVersion   string
	base         *Kind // the stored form; may be the kind itself
	unknown      bool  // records are in this form, and nobody has described it; see records.stray
	rules        rules
	layout       *table.Layout
	fingerprint  uint64      // of what records look like: of schema, version and kind
	partial      uint64      // likewise, of records that may lack defaults of the schema; see write.convertStraight
	selected     *json.Paths // paths of the selectable fields
	subresources []*Subresource
}

// compile compiles a description, which it does not change. stored is the stored kind if the
// description is a further form of its objects, and nil if objects are stored in the described
// form.
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
	r.partial = ^r.fingerprint
	if stored != nil {
		r.base = stored
	}
	if stored != nil && !r.straight() {
		r.inherit(stored)
	}
	return r, nil
}

// compileDocument compiles what objects and other documents have in common.
func (e *Engine) compileDocument(r *registry.Resource) (*Kind, error) {
	out := &Kind{Resource: r, apiVersion: r.APIVersion(), rules: rulesFor(&r.Hooks, r.Schema), Verbs: []string{verbCreate}}
	out.base, out.rules.whole = out, r.Writes.NoRatcheting
	if r.Virtual == nil {
		out.Verbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
		if r.Deletion.NoCollections {
			out.Verbs = slices.Delete(out.Verbs, 2, 3)
		}
		out.Patches = []meta.PatchType{meta.ApplyPatch, meta.JSONPatch, meta.MergePatch}
		if r.StrategicMerge {
			out.Patches = append(out.Patches, meta.StrategicMergePatch)
		}
	}
	var err error
	if out.rules.expressions, err = compileRules(r, &e.cfg); err != nil {
		return nil, err
	}
	if out.layout, err = table.New(r.Columns); err != nil {
		return nil, err
	}
	if r.Type != nil {
		if out.Messages, _, err = e.messages.Describe(r.Type); err != nil {
			return nil, fmt.Errorf("the Go type %s: %w", r.Type, err)
		}
	}
	return out, nil
}

// APIVersion is that of the kind's objects, made once.
func (r *Kind) APIVersion() string { return r.apiVersion }

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

// convert converts an object of r to another form of the same objects, as a request for that form
// would show it.
func (r *Kind) convert(ctx context.Context, t registry.Tree, to *Kind) (registry.Tree, error) {
	if r.base != to.base {
		return nil, status.Internal(fmt.Errorf("%s and %s are not forms of the same objects", r.GroupVersionKind(), to.GroupVersionKind()))
	}
	if r == to {
		return t, nil
	}
	if r.straight() {
		return straightOne(ctx, to.Resource, t)
	}
	stored, err := ToStored(ctx, r.Resource, t)
	if err != nil {
		return nil, err
	}
	return FromStored(ctx, to.Resource, to.base.Schema.Default(stored))
}

// describedBy reports whether a description is that of this kind: the same resource, stored in the
// same place and in the same shape.
func (r *Kind) describedBy(d *registry.Resource) bool {
	return r.GroupVersionResource() == d.GroupVersionResource() && d.Schema != nil && d.Schema.Fingerprint() == r.Schema.Fingerprint()
}

// Layout returns the prepared columns of tables.
func (r *Kind) Layout() *table.Layout { return r.layout }

// Endpoints returns the subresources, including those inherited from the stored form.
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

// inherit adds the subresources of the stored kind that a form does not define itself. It does not
// add status: a status is a field of the kind, which a form has or lacks.
func (r *Kind) inherit(stored *Kind) {
	for _, s := range stored.subresources {
		if _, own := r.Endpoint(s.Name); !own && s.Name != "status" {
			r.subresources = append(r.subresources, s.inherited(r))
		}
	}
}

// Subresource is a compiled registry.Subresource.
type Subresource struct {
	*registry.Subresource
	view     *view               // nil: the object itself is exchanged
	handlers map[string]*handler // by verb

	// merge returns the object to store when sent arrives. It is nil if the subresource does not
	// exchange the kind.
	merge func(ctx context.Context, old, sent registry.Tree) (registry.Tree, error)

	// stored reports that the subresource belongs to the stored form of the objects and is reached
	// through another form.
	stored bool
}

// handler is a compiled registry.Handler.
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
		} else { // nobody owns the fields of other documents
			document.Patches = slices.DeleteFunc(document.Patches, func(t meta.PatchType) bool { return t == meta.ApplyPatch })
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

// inherited returns a subresource of stored objects for use through r, another form of them.
func (s *Subresource) inherited(r *Kind) *Subresource {
	out := *s
	if s.merge == nil {
		out.stored = true
		return &out
	}
	described := *s.Subresource
	described.Fields, described.Unowned = nil, nil
	out.Subresource = &described
	out.merge = func(ctx context.Context, old, sent registry.Tree) (registry.Tree, error) {
		storedOld, err := ToStored(ctx, r.Resource, old)
		if err != nil {
			return nil, err
		}
		storedSent, err := ToStored(ctx, r.Resource, sent)
		if err != nil {
			return nil, err
		}
		merged, err := s.merge(ctx, storedOld, storedSent)
		if err != nil {
			return nil, err
		}
		return FromStored(ctx, r.Resource, merged)
	}
	return &out
}

// Document describes the document that a verb of the subresource accepts. It is nil if that is the
// kind itself, or if the verb accepts none.
func (s *Subresource) Document(verb string) *Kind {
	switch h := s.handlers[verb]; {
	case h != nil:
		return h.body
	case s.view != nil && verb != "create":
		return s.view.document
	}
	return nil
}

// Answer describes the document that a verb of the subresource returns. It is nil if that is the
// kind itself, or if the answer is not an object.
func (s *Subresource) Answer(verb string) *Kind {
	switch h := s.handlers[verb]; {
	case h != nil && h.Run != nil:
		return h.answer
	case s.view != nil:
		return s.view.document
	}
	return nil
}

// GroupVersionKind returns the kind that discovery lists for the subresource of a resource
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

// Acts reports whether a verb of the subresource is an action.
func (s *Subresource) Acts(verb string) bool {
	h := s.handlers[verb]
	return h != nil && h.Run != nil && h.body != nil
}

// Asks reports whether a get of the subresource is served by Engine.Ask.
func (s *Subresource) Asks() bool {
	h := s.handlers["get"]
	return h != nil && h.Run != nil
}

// Connects reports whether clients connect to the subresource.
func (s *Subresource) Connects() bool {
	for _, h := range s.handlers {
		if h.Connect != nil {
			return true
		}
	}
	return false
}

// Transport returns the requirements of a connection on its requests, or nil for other
// subresources.
func (s *Subresource) Transport() any {
	for _, h := range s.handlers {
		if h.Connect != nil {
			return h.Transport
		}
	}
	return nil
}

// Paths reports whether URLs may continue below the subresource.
func (s *Subresource) Paths() bool {
	for _, h := range s.handlers {
		if h.Connect != nil && h.Paths {
			return true
		}
	}
	return false
}

// Streams reports whether a request may last as long as it likes, because it is a stream or a
// connection.
func (s *Subresource) Streams(verb string) bool {
	h := s.handlers[verb]
	return h != nil && (h.Open != nil || h.Connect != nil)
}

// MediaType returns the media type that a get of the subresource sends if its answer is not an
// object, and "" otherwise.
func (s *Subresource) MediaType() string {
	if h := s.handlers["get"]; h != nil {
		return h.MediaType
	}
	return ""
}

// Patches returns the patch types that the subresource of a kind accepts.
func (s *Subresource) Patches(of *Kind) []meta.PatchType {
	switch {
	case !slices.Contains(s.Verbs, "patch"):
		return nil
	case s.view == nil:
		return of.Patches
	case of.Virtual == nil && !of.StrategicMerge:
		return slices.DeleteFunc(slices.Clone(s.view.document.Patches), func(p meta.PatchType) bool { return p == meta.StrategicMergePatch })
	}
	return s.view.document.Patches
}

// readsObject reports whether a get shows the object itself or a view of it.
func (s *Subresource) readsObject() bool { return s.handlers["get"] == nil }
