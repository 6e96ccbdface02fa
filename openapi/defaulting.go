package openapi

import (
	"maps"
	"slices"

	"github.com/kindwright/kindwright/internal/json"
)

// maxDefaultedBytes bounds how much JSON defaults may add to one object. A list of a million empty items could otherwise
// grow by a kilobyte each; an object that reached the bound is beyond what any store takes, so that it is refused anyway.
const maxDefaultedBytes = 16 << 20

// Default fills in the defaults of fields that are missing, or null where the schema does not allow null. Defaults inside
// an object apply when the object is there; one that is missing is created only by a default of its own.
func (s *Schema) Default(tree map[string]any) map[string]any {
	if s.ready == nil || tree == nil {
		return tree
	}
	d := defaulter{budget: maxDefaultedBytes}
	out, _ := d.below(s, tree)
	return out.(map[string]any)
}

type defaulter struct {
	budget    int // bytes
	exhausted bool
	endless   bool // a default is needed to make that default
}

// below fills in what is missing below a value and tells whether anything was.
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
		case present && (value != nil || p.Schema.allowsNull()):
			if filled, other := d.below(p.Schema, value); other {
				set(p.Name, filled)
			}
		case p.Schema.DefaultValue == nil:
		case p.Schema.ready.filled == nil:
			d.endless = true
		case d.spend(p.Schema.ready.filledSize + len(p.Name)):
			set(p.Name, json.Clone(p.Schema.ready.filled))
		}
	}
	if rest := s.AdditionalProperties; rest != nil && rest.ready.hasDefaults {
		for name, value := range object {
			if _, named := s.ready.properties[name]; named {
				continue
			}
			if filled, other := d.below(rest, value); other {
				set(name, filled)
			}
		}
	}
	return out, changed
}

func (d *defaulter) spend(bytes int) bool {
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
		filled, other := d.below(s.Items, value)
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
