package threeway

import (
	"github.com/kindwright/kindwright/internal/json"
)

// maxCompared bounds how many pairs of items are compared in full. Beyond it items are paired in
// their order, which takes time in proportion to the lists.
const maxCompared = 1 << 14

// Pair returns for each item of after the index of the item of before that it comes from, or -1 if
// it is new. Items have no identity, so they are followed by their content: equal items at both ends
// of the lists, then equal items in between, in their order. What is left over was changed: it is
// paired with what was in its place if the lists are of one length, and otherwise with the item that it
// resembles most.
func Pair(before, after []any) []int {
	out := make([]int, len(after))
	start, endBefore, endAfter := 0, len(before), len(after)
	for ; start < min(endBefore, endAfter) && json.Equal(before[start], after[start]); start++ {
		out[start] = start
	}
	for min(endBefore, endAfter) > start && json.Equal(before[endBefore-1], after[endAfter-1]) {
		endBefore, endAfter = endBefore-1, endAfter-1
		out[endAfter] = endBefore
	}
	places := make(map[string][]int, endBefore-start)
	for j := start; j < endBefore; j++ {
		k := text(before[j])
		places[k] = append(places[k], j)
	}
	taken := make([]bool, len(before))
	var changed []int // indexes of after
	for i := start; i < endAfter; i++ {
		k := text(after[i])
		if len(places[k]) == 0 {
			out[i] = -1
			changed = append(changed, i)
			continue
		}
		out[i] = places[k][0]
		taken[out[i]] = true
		places[k] = places[k][1:]
	}
	var gone []int // indexes of before
	for j := start; j < endBefore; j++ {
		if !taken[j] {
			gone = append(gone, j)
		}
	}
	pairChanged(before, after, gone, changed, out)
	return out
}

// pairChanged pairs the items that went with those that came.
func pairChanged(before, after []any, gone, came, out []int) {
	free := make(map[int]bool, len(gone))
	for _, j := range gone {
		free[j] = true
	}
	if len(before) == len(after) {
		for _, i := range came {
			if free[i] {
				out[i] = i
				delete(free, i)
			}
		}
	}
	if len(gone)*len(came) > maxCompared {
		return
	}
	for _, i := range came {
		if out[i] >= 0 {
			continue
		}
		best, most := -1, 0
		for _, j := range gone {
			if n := resemblance(before[j], after[i]); free[j] && n > most {
				best, most = j, n
			}
		}
		if best >= 0 {
			out[i] = best
			delete(free, best)
		}
	}
}

// resemblance counts the scalars that two values have in common.
func resemblance(a, b any) int {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok {
			return 0
		}
		n := 0
		for name, v := range a {
			if w, both := b[name]; both {
				n += resemblance(v, w)
			}
		}
		return n
	case []any:
		b, ok := b.([]any)
		if !ok {
			return 0
		}
		n := 0
		for i := range min(len(a), len(b)) {
			n += resemblance(a[i], b[i])
		}
		return n
	}
	if json.Equal(a, b) {
		return 1
	}
	return 0
}

// Shown returns for each item of part the index of the item of object that it shows, or -1. The part
// may lack items of the object, and what it shows of an item may be less than the item. Lists of one
// length show each other item by item.
func Shown(object, part []any) []int {
	out := make([]int, len(part))
	if len(object) == len(part) {
		for i := range out {
			out[i] = i
		}
		return out
	}
	used := make([]bool, len(object))
	next := 0 // the first item of object that is not used
	reach := max(len(object), 1)
	if len(object)*len(part) > maxCompared {
		reach = max(maxCompared/len(part), 1)
	}
	for i, p := range part {
		out[i] = -1
		for next < len(object) && used[next] {
			next++
		}
		for j := next; j < min(len(object), next+reach); j++ {
			if !used[j] && covers(object[j], p) {
				out[i], used[j] = j, true
				break
			}
		}
	}
	return out
}

// covers reports whether everything in part is in value too.
func covers(value, part any) bool {
	switch p := part.(type) {
	case map[string]any:
		v, ok := value.(map[string]any)
		if !ok {
			return false
		}
		for name, below := range p {
			if have, ok := v[name]; !ok || !covers(have, below) {
				return false
			}
		}
		return true
	case []any:
		v, ok := value.([]any)
		if !ok {
			return false
		}
		n := 0
		for _, below := range p {
			for n < len(v) && !covers(v[n], below) {
				n++
			}
			if n == len(v) {
				return false
			}
			n++
		}
		return true
	}
	return json.Equal(value, part)
}

// byIdentity returns for each item of items the index of the item of others with the same identity,
// or -1. The second of two items with one identity finds the second.
func byIdentity(identity func(any) string, items, others []any) []int {
	places := make(map[string][]int, len(others))
	for j, o := range others {
		k := identity(o)
		places[k] = append(places[k], j)
	}
	out := make([]int, len(items))
	for i, it := range items {
		k := identity(it)
		out[i] = -1
		if at := places[k]; len(at) > 0 {
			out[i], places[k] = at[0], at[1:]
		}
	}
	return out
}

// index returns where the first item of each identity is.
func index(identity func(any) string, items []any) map[string]int {
	out := make(map[string]int, len(items))
	for i, it := range items {
		k := identity(it)
		if _, ok := out[k]; !ok {
			out[k] = i
		}
	}
	return out
}

// text returns the canonical JSON of a tree. It cannot fail, because trees come from decoding.
func text(tree any) string {
	b, err := json.AppendTree(nil, tree)
	if err != nil {
		return ""
	}
	return string(b)
}
