package openapi

import (
	"maps"
	"slices"

	"github.com/kindwright/kindwright/internal/json"
)

// maxDefaultedBytes limits how much JSON defaults may add to one object. Without a limit, a default
// of one kilobyte would turn a list of a million empty items into a gigabyte. An object that
// reaches the limit is too large for any store, so it is rejected later anyway.
const maxDefaultedBytes = 16 << 20

// Default fills in the defaults of missing fields, and of null fields where the schema does not
// allow null. Defaults inside an object apply only if the object is present; a missing object is
// created only if it has a default itself. Default does not modify tree: it copies the objects and
// lists that change and shares the rest.
func (s *Schema) Default(tree map[string]any) map[string]any {
	if s.ready == nil || tree == nil {
		return tree
	}
	d := defaulter{budget: maxDefaultedBytes}
	out, _ := d.below(s, tree)
	return out.(map[string]any)
}

// defaulter fills in defaults in one object and keeps account of the bytes added.
type defaulter struct {
	budget    int  // bytes
	weighs    bool // the budget is one of weights, see containerWeight
	exhausted bool
	endless   bool // a default contains itself, directly or through others
}

// below fills in what is missing below v and reports whether anything changed.
func (d *defaulter) below(s *Schema, v any) (any, bool) {
	if !s.ready.hasDefaults {
		return v, false
	}
	switch t := v.(type) {
	case map[string]any:
		return d.object(s, t)
	case []any:
		if out, changed := d.array(s, t); changed {
			return out, true
		}
	}
	return v, false
}

// object visits the declared fields with defaults instead of the members of the object, because
// defaults are for missing members. Each default is cloned: the object may be changed later, and
// the schema is shared.
func (d *defaulter) object(s *Schema, object map[string]any) (any, bool) {
	out, changed := object, false
	set := func(name string, value any) {
		if !changed {
			out, changed = maps.Clone(object), true
		}
		out[name] = value
	}
	for _, p := range s.ready.defaulted {
		value, present := object[p.Name]
		switch {
		case present && (value != nil || p.Schema.keepsNull()):
			if filled, other := d.below(p.Schema, value); other {
				set(p.Name, filled)
			}
		case p.Schema.DefaultValue == nil || p.Schema.isKeyDefault():
		case p.Schema.ready.filled == nil:
			d.endless = true
		case d.spend(p.Schema.ready, len(p.Name)):
			set(p.Name, json.Clone(p.Schema.ready.filled))
		}
	}
	if rest := s.AdditionalProperties; rest != nil && rest.ready.hasDefaults {
		for name, value := range object {
			if _, named := s.ready.properties[name]; named {
				continue
			}
			if filled, other := d.entry(rest, value); other {
				set(name, filled)
			}
		}
	}
	return out, changed
}

// isKeyDefault reports whether a default only says how an item of a list is called that lacks a key. The
// empty text of a Go type is: programs leave it out, and Kubernetes stores none.
func (s *Schema) isKeyDefault() bool { return s.DefaultValue == "" && !s.fromDocument }

// entry fills in what is missing in an item, or in a member of a map. Null becomes the default.
func (d *defaulter) entry(s *Schema, v any) (any, bool) {
	if v != nil || s.DefaultValue == nil || s.keepsNull() {
		return d.below(s, v)
	}
	if s.ready.filled == nil {
		d.endless = true
	} else if d.spend(s.ready, 0) {
		return json.Clone(s.ready.filled), true
	}
	return v, false
}

// spend accounts for a default to be added, and for the bytes of its name. It returns false if the
// limit would be exceeded. The default is then left out; see maxDefaultedBytes.
func (d *defaulter) spend(of *prepared, name int) bool {
	bytes := of.filledSize + name
	if d.weighs {
		bytes = of.filledWeight + name
	}
	if d.budget < bytes {
		d.exhausted = true
		return false
	}
	d.budget -= bytes
	return true
}

func (d *defaulter) array(s *Schema, array []any) ([]any, bool) {
	if s.Items == nil {
		return array, false
	}
	out, changed := array, false
	for i, value := range array {
		filled, other := d.entry(s.Items, value)
		if !other {
			continue
		}
		if !changed {
			out, changed = slices.Clone(array), true
		}
		out[i] = filled
	}
	return out, changed
}
