package threeway

import (
	"maps"
	"slices"

	"github.com/kindwright/kindwright/internal/json"
)

// Shape is what is known about the values at one place of the trees. A nil Shape knows nothing.
type Shape interface {
	// Member returns the shape of a member of an object, Items that of the items of a list.
	Member(name string) Shape
	Items() Shape
	// Identity returns the function that identifies items of the given lists. It returns nil if
	// nothing but their content does.
	Identity(lists ...[]any) func(item any) string
	// Whole reports whether a value that is removed takes along what the part does not show of it.
	Whole() bool
	// Bare reports whether an object has nothing that is worth keeping: no members, or only those
	// that would come back by default.
	Bare(object map[string]any) bool
}

// Merge returns object with the changes that lead from before to after. The shape is that of the
// object.
func Merge(s Shape, object, before, after map[string]any) map[string]any {
	if json.Equal(before, after) {
		return object
	}
	out := maps.Clone(object)
	if out == nil {
		out = make(map[string]any, len(after))
	}
	for name, b := range before {
		if _, still := after[name]; still {
			continue
		}
		if rest, some := remainder(member(s, name), object[name], b); some {
			out[name] = rest
		} else {
			delete(out, name)
		}
	}
	for name, a := range after {
		b, had := before[name]
		if had && json.Equal(a, b) {
			continue
		}
		out[name] = value(member(s, name), object[name], b, a)
	}
	return out
}

// value merges one value that changed or is new. It is nil in object or before if it is missing
// there.
func value(s Shape, object, before, after any) any {
	switch after := after.(type) {
	case map[string]any:
		o, ok := object.(map[string]any)
		b, was := before.(map[string]any)
		if ok && (was || before == nil) {
			return Merge(s, o, b, after)
		}
	case []any:
		o, ok := object.([]any)
		b, was := before.([]any)
		if ok && (was || before == nil) {
			return list(s, o, b, after)
		}
	}
	return after
}

// remainder returns what is left of a value when the part does not have it any more.
func remainder(s Shape, object, before any) (any, bool) {
	if s != nil && s.Whole() {
		return nil, false
	}
	switch b := before.(type) {
	case map[string]any:
		o, ok := object.(map[string]any)
		if !ok {
			return nil, false
		}
		rest := Merge(s, o, b, nil)
		return rest, len(rest) > 0 && (s == nil || !s.Bare(rest))
	case []any:
		o, ok := object.([]any)
		if !ok {
			return nil, false
		}
		rest := list(s, o, b, nil)
		return rest, len(rest) > 0
	}
	return nil, false
}

// list merges lists. The result has the items of after in their order. Items of object that before
// does not show follow the item that they followed.
func list(s Shape, object, before, after []any) []any {
	items, identity := below(s), identityOf(s, object, before, after)
	var shown, from []int
	if identity != nil {
		shown, from = byIdentity(identity, before, object), byIdentity(identity, after, before)
	} else {
		shown, from = Shown(object, before), Pair(before, after)
	}
	place := make([]int, len(after)) // of the item in object that each item of after comes from, or -1
	used := make([]bool, len(object))
	for _, j := range shown {
		if j >= 0 {
			used[j] = true
		}
	}
	merged := make([]any, len(after))
	added := map[string]int(nil)
	if identity != nil {
		added = index(identity, object)
	}
	for i, a := range after {
		merged[i], place[i] = a, -1
		switch k := from[i]; {
		case k >= 0 && shown[k] >= 0:
			place[i] = shown[k]
			merged[i] = item(items, object[place[i]], before[k], a)
		case k < 0 && identity != nil:
			// A new item may name one that the part did not show.
			if j, ok := added[identity(a)]; ok && !used[j] {
				used[j], place[i] = true, j
				merged[i] = value(items, object[j], nil, a)
			}
		}
	}
	return withHidden(object, used, merged, place)
}

func item(s Shape, object, before, after any) any {
	if json.Equal(before, after) {
		return object
	}
	return value(s, object, before, after)
}

// withHidden puts the items of object that are not used into items. place says where in object each
// of items was.
func withHidden(object []any, used []bool, items []any, place []int) []any {
	if !slices.Contains(used, false) {
		return items
	}
	at := make(map[int]int, len(place)) // index in object to index in items
	for i, j := range place {
		if j >= 0 {
			at[j] = i
		}
	}
	follow := make([][]any, len(items)+1) // follow[i+1] are the hidden items behind items[i]
	last := 0
	for j, o := range object {
		if i, ok := at[j]; ok {
			last = i + 1
		} else if !used[j] {
			follow[last] = append(follow[last], o)
		}
	}
	out := slices.Clone(follow[0])
	for i, it := range items {
		out = append(append(out, it), follow[i+1]...)
	}
	return out
}

func member(s Shape, name string) Shape {
	if s == nil {
		return nil
	}
	return s.Member(name)
}

func below(s Shape) Shape {
	if s == nil {
		return nil
	}
	return s.Items()
}

func identityOf(s Shape, lists ...[]any) func(any) string {
	if s == nil {
		return nil
	}
	return s.Identity(lists...)
}
