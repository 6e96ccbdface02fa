package client

import (
	"maps"
	"slices"

	"github.com/kindwright/kindwright/internal/json"
)

// The struct is a view of the object; the text the server sent is the object. What a caller changed
// in the struct is the difference between the struct encoded before and after, and only that
// difference is applied to the object: what the struct does not know, or spells differently, stays
// as it was (UPDATE-04).

// carry applies the difference between before and after to object. It changes none of them; the
// result shares parts.
func carry(object, before, after any) any {
	if json.Equal(before, after) {
		return object
	}
	switch after := after.(type) {
	case map[string]any:
		b, wasMap := before.(map[string]any)
		o, isMap := object.(map[string]any)
		if wasMap && isMap {
			return carryMap(o, b, after)
		}
	case []any:
		b, wasList := before.([]any)
		o, isList := object.([]any)
		if wasList && isList && len(o) == len(b) {
			return carryList(o, b, after)
		}
	}
	return after
}

// carryMap does so for maps. What the struct no longer has is removed with all that is in it:
// setting a pointer to nil is meant to remove something, also the part of it that the struct does
// not know.
func carryMap(object, before, after map[string]any) map[string]any {
	out := maps.Clone(object)
	for name := range before {
		if _, still := after[name]; !still {
			delete(out, name)
		}
	}
	for name, a := range after {
		b, had := before[name]
		switch o, has := object[name]; {
		case had && has:
			out[name] = carry(o, b, a)
		case has: // the struct left it out because nothing that it knows was in there
			out[name] = carry(o, emptied(o), a)
		case !had || !json.Equal(b, a): // what the struct always spells out, and nobody set, is no change
			out[name] = a
		}
	}
	return out
}

// emptied is how a struct sees what it leaves out.
func emptied(object any) any {
	if _, isMap := object.(map[string]any); isMap {
		return map[string]any{}
	}
	return nil
}

// carryList pairs the items of after with those of before, whose places in object are the same. An
// item without a pair is new, and is what the struct says.
func carryList(object, before, after []any) []any {
	out := make([]any, len(after))
	for i, j := range pairs(before, after) {
		if j < 0 {
			out[i] = after[i]
			continue
		}
		out[i] = carry(object[j], before[j], after[i])
	}
	return out
}

// pairs returns for each item of after the index of the item of before that it comes from, -1 if
// there is none: by what names the items if something does; else equal items belong together, and
// an item changed in its place to the one that was there.
func pairs(before, after []any) []int {
	if name := naming(before, after); name != "" {
		index := make(map[string]int, len(before))
		for j, item := range before {
			index[member(item, name)] = j
		}
		return pairEach(after, func(_ int, item any) int { return at(index, member(item, name)) })
	}
	return pairPlaces(before, after)
}

func pairEach(items []any, pair func(i int, item any) int) []int {
	out := make([]int, len(items))
	for i, item := range items {
		out[i] = pair(i, item)
	}
	return out
}

// pairPlaces pairs items that nothing names: equal ones at both ends, equal ones between, and then,
// where as many came as went between the ends, by place.
func pairPlaces(before, after []any) []int {
	start, endBefore, endAfter := 0, len(before), len(after)
	for start < min(endBefore, endAfter) && json.Equal(before[start], after[start]) {
		start++
	}
	for min(endBefore, endAfter) > start && json.Equal(before[endBefore-1], after[endAfter-1]) {
		endBefore, endAfter = endBefore-1, endAfter-1
	}
	places := make(map[string][]int)
	for j := start; j < endBefore; j++ {
		k := text(before[j])
		places[k] = append(places[k], j)
	}
	taken := make([]bool, len(before))
	out := pairEach(after, func(i int, item any) int {
		switch {
		case i < start:
			return i
		case i >= endAfter:
			return i - endAfter + endBefore
		}
		k := text(item)
		if len(places[k]) == 0 {
			return -1
		}
		j := places[k][0]
		places[k] = places[k][1:]
		taken[j] = true
		return j
	})
	for i := start; i < endAfter; i++ {
		if out[i] < 0 && endBefore == endAfter && !taken[i] {
			out[i] = i
		}
	}
	return out
}

func at(index map[string]int, key string) int {
	if j, has := index[key]; has {
		return j
	}
	return -1
}

// naming returns the member by which the items of both lists can be told apart, "" if there is
// none.
func naming(lists ...[]any) string {
	for _, name := range []string{"uid", "name", "type", "key", "id"} {
		if !slices.ContainsFunc(lists, func(items []any) bool { return !names(items, name) }) {
			return name
		}
	}
	return ""
}

func names(items []any, name string) bool {
	seen := make(map[string]bool, len(items))
	for _, item := range items {
		v := member(item, name)
		if v == "" || seen[v] {
			return false
		}
		seen[v] = true
	}
	return true
}

// member returns the text that an item has under a name, "" if it has none.
func member(item any, name string) string {
	m, _ := item.(map[string]any)
	s, _ := m[name].(string)
	return s
}

// text is the canonical JSON of a tree: the same for equal ones. Trees here come from decoding, so
// it cannot fail.
func text(tree any) string {
	b, err := json.AppendTree(nil, tree)
	if err != nil {
		return ""
	}
	return string(b)
}
