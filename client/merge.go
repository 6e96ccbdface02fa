package client

import (
	"maps"
	"slices"

	"github.com/kindwright/kindwright/internal/json"
)

// A Go struct shows only part of an object; the text from the server is the whole object. The
// caller's change is the difference between the struct's JSON before and after. Only that
// difference is applied to the object, so fields that the struct does not know or encodes
// differently keep their values (UPDATE-04).

// merge applies the difference between before and after to object. It does not modify its
// arguments; the result shares parts with them.
func merge(object, before, after any) any {
	if json.Equal(before, after) {
		return object
	}
	switch after := after.(type) {
	case map[string]any:
		b, wasMap := before.(map[string]any)
		o, isMap := object.(map[string]any)
		if wasMap && isMap {
			return mergeMap(o, b, after)
		}
	case []any:
		b, wasList := before.([]any)
		o, isList := object.([]any)
		if wasList && isList && len(o) == len(b) {
			return mergeList(o, b, after)
		}
	}
	return after
}

// mergeMap merges maps. A member that the struct no longer has is removed with everything in it,
// even fields that the struct does not know: a pointer set to nil means removal.
func mergeMap(object, before, after map[string]any) map[string]any {
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
			out[name] = merge(o, b, a)
		case has: // the struct omits it: it has no fields below
			out[name] = merge(o, emptied(o), a)
		case !had || !json.Equal(b, a): // a field that the struct always writes is not a change
			out[name] = a
		}
	}
	return out
}

// emptied returns how a struct shows a value that it omits.
func emptied(object any) any {
	if _, isMap := object.(map[string]any); isMap {
		return map[string]any{}
	}
	return nil
}

// mergeList pairs the items of after with those of before, which have the same indexes in object.
// An item without a pair is new and taken from the struct.
func mergeList(object, before, after []any) []any {
	out := make([]any, len(after))
	for i, j := range pairs(before, after) {
		if j < 0 {
			out[i] = after[i]
			continue
		}
		out[i] = merge(object[j], before[j], after[i])
	}
	return out
}

// pairs returns for each item of after the index of the item of before that it comes from, or -1.
// It compares the member that identifies items, if there is one. Otherwise equal items are paired,
// and a changed item is paired with the one that was in its place.
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

// pairPlaces pairs items that have no identifying member: equal items at both ends, then equal
// items in between, then by position if as many items came as went.
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

// naming returns the member that identifies the items of both lists, or "".
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

// member returns the string member name of an item, or "".
func member(item any, name string) string {
	m, _ := item.(map[string]any)
	s, _ := m[name].(string)
	return s
}

// text returns the canonical JSON of a tree. Equal trees have equal texts. It cannot fail because
// trees come from decoding.
func text(tree any) string {
	b, err := json.AppendTree(nil, tree)
	if err != nil {
		return ""
	}
	return string(b)
}
