package registry

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/kindwright/kindwright/meta"
)

// An Endpoint is a path below the objects of a Kind. It is given to Kind.Subresources as a value:
// ScaleSubresource, View, Query, Action, Stream, connect.Endpoint, or a Subresource. Several
// endpoints of one name are one subresource, where each brings verbs of its own.
// Source: MODEL-06.
type Endpoint interface {
	// Describe returns the subresource for the objects of a resource, or says why these cannot have it. env is that
	// of the definition which the resource belongs to.
	Describe(of *Resource, env Env) (Subresource, error)
}

// Subresource is a path below one object that shows or changes a part of it. It is authorized on
// its own, as resource/name.
//
// A Subresource that is written down, as a value of this type, exchanges the kind itself, as status does. Those with documents
// of their own are made by the other endpoints.
// Source: PATH-15, MODEL-07.
type Subresource struct {
	Name  string   // the path segment
	Verbs []string // of get, update and patch; the other endpoints have more

	// Merge returns what is stored when the client sends sent through this subresource while old is stored. It keeps
	// from old whatever the subresource does not own.
	Merge func(old, sent Tree) Tree

	// Fields are the paths of what Merge takes from the client, such as {"status"}: nobody becomes
	// the manager of other fields through this subresource. None means all fields.
	// Source: SSA-31.
	Fields [][]string

	// Unowned are the paths of what Merge takes and nobody becomes the manager of, as for Resource.Unowned.
	Unowned [][]string

	// View, if not nil, has get, update and patch exchange another document than the kind's; Merge is unused then. Fields then
	// names what the document changes.
	View *Part

	// Handlers are what else verbs do, by verb: an action, a query, a stream, or a connection.
	Handlers map[string]*Handler
}

// Part is a part of an object as a document of its own: a View without Go types.
type Part struct {
	Document *Resource // what documents look like; they have metadata
	Get      func(ctx context.Context, object Tree) (Tree, error)
	Merge    func(ctx context.Context, object, document Tree) (Tree, error) // nil makes the part read-only

	// Replicas is set where the document is a Scale: the path of the field of the object that is spec.replicas of the document.
	// A Scale that Get makes without replicas can be written, and not read.
	Replicas []string
}

// Handler is what a verb of a subresource does: an Action, Query, Stream or Connection without Go types. It has one of Run, Open
// and Connect.
type Handler struct {
	Body    *Resource // the document that is sent; nil: none
	Alike   []string  // API versions that a body may have beside its own, with the same fields
	Options *Resource // the parameters of the query; nil: none. Only version, kind and schema of it count
	Answer  *Resource // the document that is answered; nil: none

	// Run answers with a document. It is given what is sent: the body where there is one, else the options.
	Run func(ctx context.Context, call *Call[Tree], sent Tree) (Tree, error)

	// Misnamed, if not nil, makes the answer to a body whose metadata names another object than the URL. The
	// usual answer is a BadRequest.
	Misnamed func(name string) error

	// Named rejects a body whose metadata has no name, instead of taking the one of the URL.
	Named bool

	// Open begins a stream of bytes, of MediaType.
	Open      func(ctx context.Context, call *Call[Tree], options Tree) (io.ReadCloser, error)
	MediaType string

	// Connect returns what serves a connection. Package connect makes it and Transport, and the HTTP handlers call them.
	Connect   func(call *Call[Tree], options Tree) (any, error)
	Transport any
	Paths     bool // URLs may go on below the subresource

	// Object, if not nil, finds the name of the object of a Connect by that in the URL.
	Object func(name string) (string, error)

	// Requires are verbs that the caller of Connect needs on the subresource, beside that of the method.
	Requires []string
}

// Describe returns the subresource itself.
func (s Subresource) Describe(*Resource, Env) (Subresource, error) { return s, nil }

// describeEndpoints makes the subresources of a resource: endpoints of one name are joined.
func describeEndpoints(of *Resource, endpoints []Endpoint, env Env) ([]Subresource, error) {
	var out []Subresource
	for i, e := range endpoints {
		if e == nil {
			return nil, fmt.Errorf("subresource %d is nil", i)
		}
		s, err := e.Describe(of, env)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(out, func(have Subresource) bool { return have.Name == s.Name })
		if at < 0 {
			out = append(out, s)
			continue
		}
		if out[at], err = joined(out[at], s); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// joined is one subresource with the verbs of two.
func joined(a, b Subresource) (Subresource, error) {
	for _, verb := range b.Verbs {
		if slices.Contains(a.Verbs, verb) {
			return a, fmt.Errorf("subresource %q is given twice: two endpoints want the verb %s", a.Name, verb)
		}
	}
	if a.connects() || b.connects() || a.Merge != nil && b.View != nil || b.Merge != nil && a.View != nil {
		return a, fmt.Errorf("subresource %q is given twice, by endpoints that cannot be joined", a.Name)
	}
	a.Verbs = append(slices.Clone(a.Verbs), b.Verbs...)
	slices.Sort(a.Verbs)
	if b.Merge != nil {
		a.Merge, a.Fields, a.Unowned = b.Merge, b.Fields, b.Unowned
	}
	if b.View != nil {
		a.View, a.Fields, a.Unowned = b.View, b.Fields, b.Unowned
	}
	handlers := map[string]*Handler{}
	maps.Copy(handlers, a.Handlers)
	maps.Copy(handlers, b.Handlers)
	a.Handlers = handlers
	return a, nil
}

// connects tells whether the subresource is one that clients connect to.
func (s *Subresource) connects() bool {
	for _, h := range s.Handlers {
		if h.Connect != nil {
			return true
		}
	}
	return false
}

// subresourceProblem finds a subresource that could not be served, or that would hide another path.
func (r *Resource) subresourceProblem() string {
	seen := map[string]bool{}
	for i := range r.Subresources {
		s := &r.Subresources[i]
		if why := meta.CheckDNS1035Label(s.Name); why != "" {
			return fmt.Sprintf("subresource %q: %s", s.Name, why)
		}
		if seen[s.Name] {
			return fmt.Sprintf("subresource %q is given twice", s.Name)
		}
		seen[s.Name] = true
		if why := s.verbProblem(); why != "" {
			return fmt.Sprintf("subresource %q %s", s.Name, why)
		}
	}
	return ""
}

// verbProblem says which verb the subresource has nothing for.
func (s *Subresource) verbProblem() string {
	if len(s.Verbs) == 0 {
		return "has no verbs"
	}
	for _, v := range s.Verbs {
		switch h := s.Handlers[v]; {
		case h != nil:
			if why := h.problem(v); why != "" {
				return why
			}
		case v == "get":
		case v == "update" || v == "patch":
			if s.View == nil && s.Merge == nil {
				return "can be written but has no Merge"
			}
		default:
			return fmt.Sprintf("cannot serve the verb %q", v)
		}
	}
	return ""
}

// problem says why a handler cannot serve a verb.
func (h *Handler) problem(verb string) string {
	verbs := []string{"get"}
	switch {
	case h.Connect != nil:
		verbs = []string{"get", "create", "update", "patch", "delete"}
	case h.Run != nil && h.Body != nil:
		verbs = []string{"create", "update"}
	}
	switch {
	case !slices.Contains(verbs, verb):
		return fmt.Sprintf("cannot serve the verb %q", verb)
	case h.Run == nil && h.Open == nil && h.Connect == nil:
		return fmt.Sprintf("has a handler of the verb %q that does nothing", verb)
	case h.Run != nil && h.Answer == nil:
		return fmt.Sprintf("does not say what the verb %q answers", verb)
	}
	return ""
}
