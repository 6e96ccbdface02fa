package threeway_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/threeway"
)

var cases = flag.Int("merge-cases", 5_000, "random merges")

// shape says that lists whose name begins with k have the key id, and that a color of red comes back
// by default.
type shape struct{ name string }

func (s shape) Member(name string) threeway.Shape { return shape{name} }
func (s shape) Items() threeway.Shape             { return shape{} }
func (s shape) Whole() bool                       { return s.name == "whole" }
func (s shape) Bare(object map[string]any) bool {
	return len(object) == 0 || json.Equal(object, map[string]any{"color": "red"})
}

func (s shape) Identity(...[]any) func(any) string {
	if !strings.HasPrefix(s.name, "k") {
		return nil
	}
	return func(item any) string { return fmt.Sprint(item.(map[string]any)["id"]) }
}

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	v, err := json.DecodeTree([]byte(text), json.TreeOptions{})
	require.NoError(t, err, text)
	return v.(map[string]any)
}

func TestMerge(t *testing.T) {
	for name, c := range map[string]struct{ object, before, after, want string }{
		"a member goes and the rest of its parent stays": {
			`{"spec":{"mode":"m","steps":[1]}}`, `{"spec":{"steps":[1]}}`, `{}`, `{"spec":{"mode":"m"}}`,
		},
		"a parent that is empty goes": {
			`{"a":1,"spec":{"in":{"steps":[1]}}}`, `{"a":1,"spec":{"in":{"steps":[1]}}}`, `{"a":1}`, `{"a":1}`,
		},
		"a parent with nothing but defaults goes": {
			`{"lamp":{"on":true,"color":"red"}}`, `{"lamp":{"on":true}}`, `{}`, `{}`,
		},
		"a parent with another value stays": {
			`{"lamp":{"on":true,"color":"blue"}}`, `{"lamp":{"on":true}}`, `{}`, `{"lamp":{"color":"blue"}}`,
		},
		"a value that goes as a whole": {
			`{"whole":{"on":true,"color":"blue"}}`, `{"whole":{"on":true}}`, `{}`, `{}`,
		},
		"a member comes into an object that was hidden": {
			`{"spec":{"mode":"m"}}`, `{}`, `{"spec":{"steps":[1]}}`, `{"spec":{"mode":"m","steps":[1]}}`,
		},
		"another type": {
			`{"a":{"x":1,"u":2},"b":[1],"c":3}`, `{"a":{"x":1},"b":[1],"c":3}`, `{"a":[1],"b":{"x":1},"c":null}`, `{"a":[1],"b":{"x":1},"c":null}`,
		},
		"equal items keep what is hidden, each its own": {
			`{"s":[{"x":1,"u":"one"},{"x":1,"u":"two"},{"z":1}]}`, `{"s":[{"x":1},{"x":1},{"z":1}]}`, `{"s":[{"x":1},{"x":1},{"z":1},{"y":1}]}`,
			`{"s":[{"x":1,"u":"one"},{"x":1,"u":"two"},{"z":1},{"y":1}]}`,
		},
		"a shorter list": {
			`{"s":[{"x":1,"u":"one"},{"x":2,"u":"two"},{"x":3,"u":"three"}]}`, `{"s":[{"x":1},{"x":2},{"x":3}]}`, `{"s":[{"x":1},{"x":3}]}`,
			`{"s":[{"x":1,"u":"one"},{"x":3,"u":"three"}]}`,
		},
		"a shorter list with a change": {
			`{"s":[{"x":1,"y":1,"u":"one"},{"x":2,"y":2,"u":"two"},{"x":3,"y":3,"u":"three"}]}`, `{"s":[{"x":1,"y":1},{"x":2,"y":2},{"x":3,"y":3}]}`, `{"s":[{"x":1,"y":1},{"x":3,"y":7}]}`,
			`{"s":[{"x":1,"y":1,"u":"one"},{"x":3,"y":7,"u":"three"}]}`,
		},
		"another order": {
			`{"s":[{"x":1,"u":"one"},{"x":2,"u":"two"}]}`, `{"s":[{"x":1},{"x":2}]}`, `{"s":[{"x":2},{"x":1}]}`, `{"s":[{"x":2,"u":"two"},{"x":1,"u":"one"}]}`,
		},
		"a list that shows some of the items": {
			`{"m":[{"r":"cpu","t":70},{"r":"memory"},{"e":"q"}]}`, `{"m":[{"r":"cpu","t":70}]}`, `{"m":[{"r":"cpu","t":50}]}`, `{"m":[{"r":"cpu","t":50},{"r":"memory"},{"e":"q"}]}`,
		},
		"a list that showed none of the items": {
			`{"m":[{"r":"memory"}]}`, `{}`, `{"m":[{"r":"cpu"}]}`, `{"m":[{"r":"memory"},{"r":"cpu"}]}`,
		},
		"a list is emptied, and hidden items stay": {
			`{"m":[{"r":"cpu"},{"h":"memory"}]}`, `{"m":[{"r":"cpu"}]}`, `{}`, `{"m":[{"h":"memory"}]}`,
		},
		"a list is emptied": {
			`{"m":[{"r":"cpu","u":1}]}`, `{"m":[{"r":"cpu"}]}`, `{}`, `{}`,
		},
		"items with keys": {
			`{"ks":[{"id":"a","u":1},{"id":"hidden"},{"id":"b","u":2}]}`, `{"ks":[{"id":"a"},{"id":"b"}]}`, `{"ks":[{"id":"b","x":1},{"id":"c"},{"id":"a"}]}`,
			`{"ks":[{"id":"b","u":2,"x":1},{"id":"c"},{"id":"a","u":1},{"id":"hidden"}]}`,
		},
		"a new item has the key of a hidden one": {
			`{"ks":[{"id":"a"},{"id":"b","u":2}]}`, `{"ks":[{"id":"a"}]}`, `{"ks":[{"id":"a"},{"id":"b","x":1}]}`, `{"ks":[{"id":"a"},{"id":"b","u":2,"x":1}]}`,
		},
		"nothing was there": {`{}`, `{}`, `{"s":[1],"o":{"x":1}}`, `{"s":[1],"o":{"x":1}}`},
	} {
		t.Run(name, func(t *testing.T) {
			object := parse(t, c.object)
			got := threeway.Merge(shape{}, object, parse(t, c.before), parse(t, c.after))
			require.Equal(t, parse(t, c.want), got)
			require.Equal(t, parse(t, c.object), object, "the object was changed in place")
		})
	}
}

// A world draws objects whose members beginning with u are hidden from the part, as are list items
// that have a member ugone. Every item has a member id, and every hidden value is unique and names
// the item that it is in.
type world struct {
	*rand.Rand
	n int
}

func (w *world) unique() string { w.n++; return fmt.Sprint(w.n) }

func (w *world) object(depth int, item string) map[string]any {
	out := map[string]any{}
	if item != "" {
		out["id"] = item
	}
	for _, name := range []string{"a", "b", "u1"} {
		if w.IntN(2) == 0 {
			out[name] = item + "-" + name + w.unique()
		}
	}
	if depth == 0 {
		return out
	}
	for _, name := range []string{"o", "p", "u2"} {
		if w.IntN(2) == 0 {
			out[name] = w.object(depth-1, "")
			if name == "u2" {
				out[name] = map[string]any{"value": w.unique()}
			}
		}
	}
	for _, name := range []string{"l", "k"} {
		if w.IntN(2) == 0 {
			list := []any{}
			for range w.IntN(5) {
				it := w.object(depth-1, "i"+w.unique())
				if w.IntN(4) == 0 {
					it = map[string]any{"id": it["id"], "ugone": "gone" + w.unique()}
				}
				list = append(list, it)
			}
			if len(list) > 0 {
				out[name] = list
			}
		}
	}
	return out
}

// part is what is shown of a value, with nothing empty.
func part(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, below := range v {
			if p := part(below); p != nil && !strings.HasPrefix(name, "u") {
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
			if _, gone := item.(map[string]any)["ugone"]; !gone {
				out = append(out, part(item))
			}
		}
		if len(out) > 0 {
			return out
		}
		return nil
	}
	return v
}

// edit changes a part as a client may. It notes the ids of the items that it removes.
func (w *world) edit(v any, removed map[string]bool) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, below := range v {
			switch {
			case name == "id":
				out[name] = below
			case w.IntN(4) > 0:
				out[name] = w.edit(below, removed)
			default:
				forget(below, removed)
			}
		}
		if w.IntN(3) == 0 {
			out["b"] = "new" + w.unique()
		}
		if len(out) == 0 {
			return nil
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

func (w *world) editList(items []any, removed map[string]bool) any {
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
		removed[item.(map[string]any)["id"].(string)] = true
		forget(item, removed)
		return true
	})
	w.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	if w.IntN(2) == 0 && len(items) == n { // a new one in the place of another is that one, changed
		items = slices.Insert(items, w.IntN(len(items)+1), any(map[string]any{"id": "new" + w.unique()}))
	}
	if len(items) == 0 {
		return nil
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
			removed[item.(map[string]any)["id"].(string)] = true
			forget(item, removed)
		}
	}
}

// hidden collects the hidden values of what was not removed, each with the item that it is in.
func hidden(v any, item string, removed map[string]bool, out map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		for name, below := range v {
			if strings.HasPrefix(name, "u") {
				text, _ := json.AppendTree(nil, below)
				out[string(text)] = item
				continue
			}
			hidden(below, item, removed, out)
		}
	case []any:
		for _, it := range v {
			if id := it.(map[string]any)["id"].(string); !removed[id] {
				hidden(it, id, removed, out)
			}
		}
	}
}

// dropEmpty is part's rule for what a client sends.
func dropEmpty(v any) map[string]any {
	m, _ := part(v).(map[string]any)
	return m
}

func TestMergeLosesNothing(t *testing.T) {
	for seed := range uint64(*cases) {
		w := &world{Rand: rand.New(rand.NewPCG(seed, 1))}
		object := w.object(3, "")
		before := dropEmpty(object)
		removed := map[string]bool{}
		after := dropEmpty(w.edit(maps.Clone(before), removed))
		merged := threeway.Merge(shape{}, object, before, after)
		require.True(t, json.Equal(after, dropEmpty(merged)), "seed %d\nobject %v\nafter  %v\nmerged %v", seed, object, after, merged)
		want, got := map[string]string{}, map[string]string{}
		hidden(object, "", removed, want)
		hidden(merged, "", nil, got)
		require.Equal(t, want, got, "seed %d\nobject %v\nafter  %v\nmerged %v", seed, object, after, merged)
	}
}

func TestPairTakesTimeLinearInTheLists(t *testing.T) {
	const n = 200_000 // quadratic time would not come to an end here
	before, after, object := make([]any, n), make([]any, n), make([]any, n+1)
	object[n] = map[string]any{"hidden": true}
	for i := range n {
		before[i] = map[string]any{"port": int64(i)}
		after[n-1-i] = before[i]
		object[i] = map[string]any{"port": int64(i), "u": true}
	}
	for i, j := range threeway.Pair(before, after) {
		require.Equal(t, n-1-i, j)
	}
	for i, j := range threeway.Shown(object, before) {
		require.Equal(t, i, j)
	}
	for i := range after {
		after[i] = map[string]any{"other": int64(i)}
	}
	require.Equal(t, -1, threeway.Pair(before[1:], after)[0])
}
