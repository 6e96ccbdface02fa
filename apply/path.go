package apply

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"

	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
)

// Path leads to a field by the names of its parents, such as {"spec", "replicas"}. It cannot lead
// into lists.
type Path []string

// String returns the path as conflicts show it: .spec.replicas.
func (p Path) String() string { return "." + strings.Join(p, ".") }

func (p Path) elements() fieldpath.Path {
	out := make(fieldpath.Path, len(p))
	for i := range p {
		out[i].FieldName = &p[i]
	}
	return out
}

// Reach limits the fields that an endpoint can change. Through this endpoint, fields outside are
// neither merged by an apply nor owned. The zero Reach is the whole object.
//
// Source: SSA-31.
type Reach struct {
	Only   []Path // these paths and everything below them; empty means all
	Except []Path // exclude these paths and everything below them

	// Unowned are paths that are merged, and have no owner and no conflicts, with everything below them.
	Unowned []Path
}

// reach is a Reach compiled for structured-merge-diff. Nil is the whole object.
type reach struct {
	Reach
	only   *fieldpath.SetMatcher
	except *fieldpath.Set // and what is unowned
}

// whole reports whether everything is within reach. r may be nil.
func (r *reach) whole() bool { return r == nil || r.only == nil && r.except == nil }

// newReach compiles a Reach. An empty path would match the whole object and is most likely a
// mistake.
func newReach(r Reach) (*reach, error) {
	out := &reach{Reach: r}
	for _, p := range slices.Concat(r.Only, r.Except, r.Unowned) {
		if len(p) == 0 {
			return nil, fmt.Errorf("Reach must not contain an empty path")
		}
	}
	if len(r.Only) > 0 {
		out.only = matcher(r.Only)
	}
	for _, p := range slices.Concat(r.Except, r.Unowned) {
		if out.except == nil {
			out.except = fieldpath.NewSet()
		}
		out.except.Insert(p.elements())
	}
	return out, nil
}

// matcher matches the given paths and everything below them. It builds the matcher in one pass
// because SetMatcher.Merge is wrong for matchers with several members in common: for those that it
// misses, it only matches what one of the two has below.
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

// Filter returns the part of a set that is within reach.
func (r *reach) Filter(s *fieldpath.Set) *fieldpath.Set {
	if r.only != nil {
		s = s.FilterIncludeMatches(r.only)
	}
	if r.except != nil {
		s = s.RecursiveDifference(r.except)
	}
	return s
}

// trim returns the part of an applied configuration that is within reach, plus the fields that
// identify the object.
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

// neverOwned lists the fields that never have an owner, because they identify the object or the
// server maintains them.
//
// Source: SSA-24.
func neverOwned() []Path {
	out := []Path{{"apiVersion"}, {"kind"}, {"metadata"}}
	for _, name := range meta.MetadataFields(meta.NeverOwned) {
		out = append(out, Path{"metadata", name})
	}
	return out
}
