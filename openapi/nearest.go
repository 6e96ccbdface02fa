package openapi

import (
	"slices"

	"github.com/kindwright/kindwright/status"
)

// explain reports what is wrong with the branch that a value is nearest to satisfying. Clients are
// told that no branch holds, which does not say what to change.
func (w *walk) explain(branches []*Schema, v any, old earlier) {
	if w.done() || w.isFull() {
		return
	}
	before := len(w.errs)
	branch, _ := w.nearest(branches, v)
	branch.validate(w, v, old)
	kept := w.errs[:before]
	for _, e := range w.errs[before:] { // branches repeat what is around them
		if !reported(kept, e) {
			kept = append(kept, e)
		}
	}
	w.errs = kept
}

// reported reports whether the same is already known of a field.
func reported(errs []status.FieldError, e status.FieldError) bool {
	for _, have := range errs {
		if have.Field == e.Field && have.Type == e.Type && have.Detail == e.Detail {
			return true
		}
	}
	return false
}

// nearest returns the branch of which most applies to a value, the first of several, and how much that
// is. Kubernetes chooses by the same count.
func (w *walk) nearest(branches []*Schema, v any) (best *Schema, most int) {
	most = -1
	for _, branch := range branches {
		if n := w.matches(branch, v); n > most {
			best, most = branch, n
		}
	}
	return best, most
}

// matches counts the checks of a schema that apply to a value and to what is in it, and once more those
// of types that hold.
func (w *walk) matches(s *Schema, v any) int {
	const always = 4 // of branches, twice, of enums, and of the schema itself
	n := 0
	if typed := s.Type != "" || isTextFormat(s.Format); v != nil && typed {
		n++
		if s.hasType(v) && !s.isForTexts(v) {
			n++
		}
	}
	if v == nil {
		if s.validNull() {
			n++
		}
		return n
	}
	if !w.spend(1) {
		return n
	}
	return n + always + w.matchesInside(s, v) + w.matchesOfBranches(s, v)
}

// matchesInside is matches for the checks of one type of values.
func (w *walk) matchesInside(s *Schema, v any) (n int) {
	switch v := v.(type) {
	case string:
		n++
		if isTextFormat(s.Format) {
			n++
		}
	case int64, float64:
		n += 2
	case []any:
		n += 2
		for _, item := range v {
			if s.Items == nil || w.work > maxWork {
				break
			}
			n += w.matches(s.Items, item)
		}
	case map[string]any:
		n++
		for name, member := range v {
			if w.work > maxWork {
				break
			}
			if field, ok := s.Lookup(name); ok {
				n += w.matches(field, member)
			}
		}
	}
	return n
}

// matchesOfBranches is matches for branches: all of allOf, and of the others the first that holds or
// else the nearest.
func (w *walk) matchesOfBranches(s *Schema, v any) (n int) {
	for _, branch := range s.AllOf {
		n += w.matches(branch, v)
	}
	for _, branches := range [][]*Schema{s.AnyOf, s.OneOf} {
		holds := slices.IndexFunc(branches, func(b *Schema) bool { return w.valid([]*Schema{b}, v, earlier{}, 1) == 1 })
		switch {
		case holds >= 0:
			n += w.matches(branches[holds], v)
		case len(branches) > 0:
			_, most := w.nearest(branches, v)
			n += most
		}
	}
	return n
}
