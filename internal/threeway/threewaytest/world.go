package threewaytest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/kindwright/kindwright/internal/json"
)

// A World draws objects with the members a, b and u (strings), o, p and v (objects), and l and k
// (lists of objects; the items of k have the key id). Every item has the member id, which every part
// shows. Every string is unique. A World must not be used concurrently.
type World struct {
	*rand.Rand
	hides func(name string) bool
	n     int
}

// New returns a World that draws the same for the same seed. hides says which members the part does
// not show. It does not show items with the member gone either.
func New(seed uint64, hides func(name string) bool) *World {
	return &World{Rand: rand.New(rand.NewPCG(seed, 1)), hides: hides}
}

func (w *World) unique() string { w.n++; return fmt.Sprint(w.n) }

// Object draws an object in which objects are nested to a depth.
func (w *World) Object(depth int) map[string]any { return w.object(depth, "") }

func (w *World) object(depth int, id string) map[string]any {
	out := map[string]any{}
	if id != "" {
		out["id"] = id
	}
	for _, name := range []string{"a", "b", "u"} {
		if w.IntN(2) == 0 {
			out[name] = name + w.unique()
		}
	}
	if depth == 0 {
		return out
	}
	for _, name := range []string{"o", "p", "v"} {
		if w.IntN(2) == 0 {
			if below := w.object(depth-1, ""); len(below) > 0 {
				out[name] = below
			}
		}
	}
	for _, name := range []string{"l", "k"} {
		if list := w.list(depth); len(list) > 0 {
			out[name] = list
		}
	}
	return out
}

func (w *World) list(depth int) []any {
	if w.IntN(2) == 0 {
		return nil
	}
	var list []any
	for range w.IntN(5) {
		id := "i" + w.unique()
		if w.IntN(4) == 0 {
			list = append(list, map[string]any{"id": id, "gone": "gone" + w.unique()})
			continue
		}
		list = append(list, w.object(depth-1, id))
	}
	return list
}

// Part returns what is shown of an object, without empty objects and lists.
func (w *World) Part(object map[string]any) map[string]any {
	m, _ := w.part(object).(map[string]any)
	return m
}

func (w *World) part(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, below := range v {
			if p := w.part(below); p != nil && !w.hides(name) {
				out[name] = p
			}
		}
		if len(out) > 0 {
			return out
		}
		return nil
	case []any:
		var out []any
		for _, item := range v {
			if !gone(item) {
				out = append(out, w.part(item))
			}
		}
		if len(out) > 0 {
			return out
		}
		return nil
	}
	return v
}

func gone(item any) bool { _, is := item.(map[string]any)["gone"]; return is }

func id(item any) string { return item.(map[string]any)["id"].(string) }

// Edit changes a part as a client may, without changing its argument. It returns the ids of the items
// that it removed.
func (w *World) Edit(part map[string]any) (map[string]any, map[string]bool) {
	removed := map[string]bool{}
	return w.Part(w.edit(part, removed).(map[string]any)), removed
}

func (w *World) edit(v any, removed map[string]bool) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			switch {
			case name == "id":
				out[name] = v[name]
			case w.IntN(4) > 0:
				out[name] = w.edit(v[name], removed)
			default:
				forget(v[name], removed)
			}
		}
		if w.IntN(3) == 0 && !w.hides("b") {
			out["b"] = "new" + w.unique()
		}
		return out
	case []any:
		return w.editList(slices.Clone(v), removed)
	}
	if w.IntN(3) == 0 {
		return "changed" + w.unique()
	}
	return v
}

func (w *World) editList(items []any, removed map[string]bool) any {
	if w.IntN(2) == 0 { // items change and stay where they are
		for i, item := range items {
			items[i] = w.edit(item, removed)
		}
		return items
	}
	n := len(items)
	items = slices.DeleteFunc(items, func(item any) bool {
		if w.IntN(3) > 0 {
			return false
		}
		removed[id(item)] = true
		forget(item, removed)
		return true
	})
	w.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	if w.IntN(2) == 0 && len(items) == n { // a new one in the place of another is that one, changed
		items = slices.Insert(items, w.IntN(n+1), any(map[string]any{"id": "new" + w.unique()}))
	}
	return items
}

// forget notes the items in a value that is removed.
func forget(v any, removed map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for _, below := range v {
			forget(below, removed)
		}
	case []any:
		for _, item := range v {
			removed[id(item)] = true
			forget(item, removed)
		}
	}
}

// Missing returns the ids of the items in before that are not in now.
func (w *World) Missing(before, now map[string]any) map[string]bool {
	removed, still := map[string]bool{}, map[string]bool{}
	forget(before, removed)
	forget(now, still)
	maps.DeleteFunc(removed, func(id string, _ bool) bool { return still[id] })
	return removed
}

// Hidden returns the values of an object that its part does not show, as JSON, each with the id of the
// item that it is in. It leaves out what is in the items of removed.
func (w *World) Hidden(object map[string]any, removed map[string]bool) map[string]string {
	out := map[string]string{}
	w.collect(object, "", removed, out)
	return out
}

func (w *World) collect(v any, in string, removed map[string]bool, out map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		for name, below := range v {
			if name == "gone" || w.hides(name) {
				text, _ := json.AppendTree(nil, below)
				out[string(text)] = in
				continue
			}
			w.collect(below, in, removed, out)
		}
	case []any:
		for _, item := range v {
			if !removed[id(item)] {
				w.collect(item, id(item), removed, out)
			}
		}
	}
}
