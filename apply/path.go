package apply

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"

	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
)

// Path leads to a field by the names on the way, such as {"spec", "replicas"}. It does not lead into lists.
type Path []string

// String is the path as conflicts show it: .spec.replicas.
func (p Path) String() string { return "." + strings.Join(p, ".") }

func (p Path) elements() fieldpath.Path {
	out := make(fieldpath.Path, len(p))
	for i := range p {
		out[i].FieldName = &p[i]
	}
	return out
}

// Reach says which fields an endpoint can change (SSA-31). What lies outside is neither merged by an apply nor ever owned
// through the endpoint. The zero Reach is the whole object.
type Reach struct {
	Only   []Path // these and what is below them; none means everything
	Except []Path // without these and what is below them
}

// reach is a Reach in the form in which structured-merge-diff asks for it; nil is the whole object.
type reach struct {
	Reach
	only   *fieldpath.SetMatcher
	except *fieldpath.Set
}

func newReach(r Reach) (*reach, error) {
	out := &reach{Reach: r}
	for _, p := range slices.Concat(r.Only, r.Except) {
		if len(p) == 0 {
			return nil, fmt.Errorf("a path of a Reach is empty")
		}
	}
	if len(r.Only) > 0 {
		out.only = matcher(r.Only)
	}
	for _, p := range r.Except {
		if out.except == nil {
			out.except = fieldpath.NewSet()
		}
		out.except.Insert(p.elements())
	}
	return out, nil
}

// matcher matches paths and all below them. It is made in one go, as SetMatcher.Merge does not find every member that two have in
// common, and then matches what one of them has below it alone.
func matcher(paths []Path) *fieldpath.SetMatcher {
	below := map[string][]Path{}
	for _, p := range paths {
		if len(p) == 0 {
			return fieldpath.MatchAnySet()
		}
		below[p[0]] = append(below[p[0]], p[1:])
	}
	members := make([]*fieldpath.SetMemberMatcher, 0, len(below))
	for name, rest := range below {
		members = append(members, &fieldpath.SetMemberMatcher{Path: fieldpath.PathElementMatcher{PathElement: fieldpath.PathElement{FieldName: &name}}, Child: matcher(rest)})
	}
	return fieldpath.NewSetMatcher(false, members...)
}

// Filter returns the part of a set that lies within reach.
func (r *reach) Filter(s *fieldpath.Set) *fieldpath.Set {
	if r.only != nil {
		s = s.FilterIncludeMatches(r.only)
	}
	if r.except != nil {
		s = s.RecursiveDifference(r.except)
	}
	return s
}

// trim returns the part of an applied configuration that lies within reach, and what says which object it is about.
func (r *reach) trim(config map[string]any) map[string]any {
	out := config
	if len(r.Only) > 0 {
		out = map[string]any{}
		for _, p := range r.Only {
			if v, ok := tree.Lookup(config, p...); ok {
				out = tree.With(out, v, p...)
			}
		}
	}
	for _, p := range r.Except {
		out = tree.Prune(out, p...)
	}
	keep := func(path ...string) {
		if v, ok := tree.Lookup(config, path...); ok {
			out = tree.With(out, v, path...)
		}
	}
	keep("apiVersion")
	keep("kind")
	for _, name := range meta.MetadataFields(meta.IdentifiesObject) {
		keep("metadata", name)
	}
	return out
}

// neverOwned lists the fields that are nobody's: they say what an object is, or are kept by the server (SSA-24).
func neverOwned() []Path {
	out := []Path{{"apiVersion"}, {"kind"}, {"metadata"}}
	for _, name := range meta.MetadataFields(meta.NeverOwned) {
		out = append(out, Path{"metadata", name})
	}
	return out
}
