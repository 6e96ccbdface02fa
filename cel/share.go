package cel

import (
	"reflect"
	"weak"

	"github.com/kindwright/kindwright/openapi"
)

// sharing finds expressions that were compiled for an equal schema. Definitions repeat themselves: their versions
// are mostly alike, and one schema often stands in several places. Of the 212 rules of HTTPRoute, 60 differ.
type sharing struct {
	known map[sharedKey][]weak.Pointer[expression]
	sweep int // the number of keys at which those of freed expressions are deleted
}

// sharedKey is what equal expressions have in common beside their schema.
type sharedKey struct {
	text, release   string
	known, optional bool
	message         bool
}

// maxAlike is how many expressions of one text are remembered, so that no client makes others look through many.
const maxAlike = 8

// find returns an expression of the same text whose schema is equal as far as expressions see it. same tells that.
func (h *sharing) find(key sharedKey, same func(*openapi.Schema) bool) *expression {
	for _, p := range h.known[key] {
		if e := p.Value(); e != nil && same(e.costs.root) {
			return e
		}
	}
	return nil
}

// add remembers an expression as long as somebody uses it.
func (h *sharing) add(key sharedKey, e *expression) {
	if h.known == nil {
		h.known, h.sweep = map[sharedKey][]weak.Pointer[expression]{}, minSweep
	}
	alike := append(used(h.known[key]), weak.Make(e))
	if len(alike) > maxAlike {
		alike = alike[1:]
	}
	h.known[key] = alike
	if len(h.known) < h.sweep {
		return
	}
	for key, alike := range h.known {
		if alike = used(alike); len(alike) == 0 {
			delete(h.known, key)
		} else {
			h.known[key] = alike
		}
	}
	h.sweep = max(minSweep, 2*len(h.known))
}

// used returns the expressions that have not been freed.
func used(alike []weak.Pointer[expression]) []weak.Pointer[expression] {
	out := make([]weak.Pointer[expression], 0, len(alike)+1)
	for _, p := range alike {
		if p.Value() != nil {
			out = append(out, p)
		}
	}
	return out
}

// alike reports whether expressions see the same in values of two schemas, and whether these cost the same.
func alike(a, b *openapi.Schema) bool {
	if a == b {
		return true
	}
	if a == nil || b == nil || !alikeItself(a, b) || len(a.Properties) != len(b.Properties) {
		return false
	}
	for i := range a.Properties {
		if a.Properties[i].Name != b.Properties[i].Name || !alike(a.Properties[i].Schema, b.Properties[i].Schema) {
			return false
		}
	}
	return alike(a.Items, b.Items) && alike(a.AdditionalProperties, b.AdditionalProperties)
}

// alikeItself compares two schemas without what is below them.
func alikeItself(a, b *openapi.Schema) bool {
	return a.Type == b.Type && a.Format == b.Format && a.Notation == b.Notation && a.IntOrString == b.IntOrString &&
		a.OrNumber == b.OrNumber && a.EmbeddedObject == b.EmbeddedObject && a.PreserveUnknown == b.PreserveUnknown &&
		a.Nullable == b.Nullable && a.MapType == b.MapType && a.ListType == b.ListType &&
		equalNumbers(a.MaxLength, b.MaxLength) && equalNumbers(a.MinLength, b.MinLength) &&
		equalNumbers(a.MaxItems, b.MaxItems) && equalNumbers(a.MinItems, b.MinItems) &&
		equalNumbers(a.MaxProperties, b.MaxProperties) && equalNumbers(a.MinProperties, b.MinProperties) &&
		reflect.DeepEqual(a.Required, b.Required) && reflect.DeepEqual(a.ListMapKeys, b.ListMapKeys) &&
		reflect.DeepEqual(a.Enum, b.Enum) && reflect.DeepEqual(a.DefaultValue, b.DefaultValue)
}

func equalNumbers(a, b *int64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
