package registry

import (
	"fmt"
	"slices"

	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
)

// An Endpoint is a path below the objects of a Kind (MODEL-06). It is given to Kind.Subresources as a value: ScaleSubresource,
// View, Query, Action, Stream, rest.Connect, or a Subresource. Several endpoints of one name are one subresource,
// where each brings verbs of its own.
type Endpoint interface {
	// Describe returns the subresource for the objects of a resource, or says why these cannot have it.
	Describe(of *Resource) (Subresource, error)
}

// Subresource is a path below one object that shows or changes a part of it (PATH-15). It is authorized on its own, as
// resource/name (MODEL-07).
//
// A Subresource that is written down, as a value of this type, exchanges the kind itself, as status does. Those with documents
// of their own are made by the other endpoints.
type Subresource struct {
	Name  string   // the path segment
	Verbs []string // of get, update and patch; the other endpoints have more

	// Merge returns what is stored when the client sends sent through this subresource while old is stored. It keeps
	// from old whatever the subresource does not own.
	Merge func(old, sent Tree) Tree

	// Fields are the paths of what Merge takes from the client, such as {"status"}: nobody becomes the manager of other fields
	// through this subresource (SSA-31). None means all fields.
	Fields [][]string

	view       *view
	query      *query
	actions    map[string]*action // by verb
	stream     *stream
	connection *connection

	// mergeForm is Merge for another served form than that which Merge knows.
	mergeForm func(old, sent Tree) (Tree, error)

	// stored says that the subresource belongs to the stored form of the objects, and is reached through another one.
	stored bool
}

// Describe returns the subresource itself.
func (s Subresource) Describe(*Resource) (Subresource, error) { return s, nil }

// Subresource returns the subresource of that name.
func (r *Resource) Subresource(name string) (*Subresource, bool) {
	for i := range r.Subresources {
		if r.Subresources[i].Name == name {
			return &r.Subresources[i], true
		}
	}
	return nil, false
}

// StatusSubresource is the usual `status`: it owns the field status, beside those of metadata that are named, such as
// "annotations", and nothing else (UPDATE-11, Z4).
func StatusSubresource(metadata ...string) Subresource {
	s := Subresource{Name: "status", Verbs: []string{"get", "patch", "update"}, Fields: [][]string{{"status"}}}
	for _, field := range metadata {
		s.Fields = append(s.Fields, []string{"metadata", field})
	}
	s.Merge = func(old, sent Tree) Tree {
		for _, path := range s.Fields {
			old = tree.Keep(old, sent, path...)
		}
		return old
	}
	return s
}

// statusMetadata are the fields of metadata that a status may take along.
var statusMetadata = [...]string{"annotations", "finalizers", "labels", "ownerReferences"}

// ResetStatus is the other half of StatusSubresource: the main path keeps the stored status, and a new object starts
// without one.
func ResetStatus(old, sent Tree) Tree { return tree.Keep(sent, old, "status") }

// Document describes what a verb of the subresource takes: nil where that is the kind itself, and where it takes nothing.
func (s *Subresource) Document(verb string) *Resource {
	switch {
	case s.actions[verb] != nil:
		return s.actions[verb].body
	case s.view != nil && verb != "create":
		return s.view.document
	}
	return nil
}

// Answer describes what a verb of the subresource answers: nil where that is the kind itself, and where it is no object.
func (s *Subresource) Answer(verb string) *Resource {
	switch {
	case s.actions[verb] != nil:
		return s.actions[verb].answer
	case s.query != nil && verb == "get":
		return s.query.answer
	case s.view != nil:
		return s.view.document
	}
	return nil
}

// GroupVersionKind returns the kind that discovery names for the subresource of a resource (DISC-06).
func (s *Subresource) GroupVersionKind(of *Resource) meta.GroupVersionKind {
	switch {
	case s.view != nil:
		return s.view.document.GroupVersionKind()
	case s.actions["create"] != nil:
		return s.actions["create"].body.GroupVersionKind()
	case s.actions["update"] != nil:
		return s.actions["update"].body.GroupVersionKind()
	case s.query != nil:
		return s.query.answer.GroupVersionKind()
	case s.connection != nil && s.connection.options.kind.Kind != "":
		return s.connection.options.kind
	}
	return of.GroupVersionKind()
}

// describeEndpoints makes the subresources of a resource: endpoints of one name are joined.
func describeEndpoints(of *Resource, endpoints []Endpoint, read *reading) ([]Subresource, error) {
	of.reading = read
	defer func() { of.reading = nil }()
	var out []Subresource
	for i, e := range endpoints {
		if e == nil {
			return nil, fmt.Errorf("subresource %d is nil", i)
		}
		s, err := e.Describe(of)
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
	if a.connection != nil || b.connection != nil || a.exchangesKind() && b.view != nil || b.exchangesKind() && a.view != nil {
		return a, fmt.Errorf("subresource %q is given twice, by endpoints that cannot be joined", a.Name)
	}
	a.Verbs = append(slices.Clone(a.Verbs), b.Verbs...)
	slices.Sort(a.Verbs)
	if b.Merge != nil {
		a.Merge, a.Fields = b.Merge, b.Fields
	}
	if b.view != nil {
		a.view, a.Fields = b.view, b.Fields
	}
	if b.query != nil {
		a.query = b.query
	}
	if b.stream != nil {
		a.stream = b.stream
	}
	actions := map[string]*action{}
	for _, from := range []map[string]*action{a.actions, b.actions} {
		for verb, act := range from {
			actions[verb] = act
		}
	}
	if len(actions) > 0 {
		a.actions = actions
	}
	return a, nil
}

// exchangesKind tells whether the subresource is written with objects of the kind itself.
func (s *Subresource) exchangesKind() bool { return s.Merge != nil || s.mergeForm != nil }

// readsKind tells whether a get shows the object itself, or the view of it.
func (s *Subresource) readsObject() bool {
	return s.query == nil && s.stream == nil && s.connection == nil
}

// inherited is a subresource of stored objects as it is reached through another form of them, r.
func (s Subresource) inherited(r *Resource) Subresource {
	if !s.exchangesKind() {
		s.stored = true
		return s
	}
	merge := s.Merge
	s.Merge, s.Fields = nil, nil
	s.mergeForm = func(old, sent Tree) (Tree, error) {
		storedOld, err := r.toStored(old)
		if err != nil {
			return nil, err
		}
		storedSent, err := r.toStored(sent)
		if err != nil {
			return nil, err
		}
		return r.fromStored(merge(storedOld, storedSent))
	}
	return s
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
		switch {
		case s.connection != nil:
			if !slices.Contains([]string{"get", "create", "update", "patch", "delete"}, v) {
				return fmt.Sprintf("cannot serve the verb %q", v)
			}
		case s.actions[v] != nil, v == "get":
		case v == "update" || v == "patch":
			if s.view == nil && !s.exchangesKind() {
				return "can be written but has no Merge"
			}
		default:
			return fmt.Sprintf("cannot serve the verb %q", v)
		}
	}
	return ""
}

// inherit gives a form the subresources of the stored objects that it has none of its own for. A status is a field of the kind,
// which a form has or has not.
func (r *Resource) inherit(stored *Resource) {
	for _, s := range stored.Subresources {
		if _, own := r.Subresource(s.Name); !own && s.Name != "status" {
			r.Subresources = append(r.Subresources, s.inherited(r))
		}
	}
}

// merged is what is stored when sent comes in through a subresource that exchanges the kind itself.
func (s *Subresource) merged(old, sent Tree) (Tree, error) {
	if s.mergeForm != nil {
		return s.mergeForm(old, sent)
	}
	return s.Merge(old, sent), nil
}
