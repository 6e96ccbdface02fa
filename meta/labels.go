package meta

import (
	"slices"
	"strings"
)

// Labels is the input of selectors: named string values, usually an object's labels or its
// selectable fields. Get must be safe for concurrent use and must not modify the receiver.
type Labels interface {
	Get(key string) (value string, ok bool)
}

// LabelMap is an object's labels as decoded. Passing one to Matches does not allocate.
type LabelMap map[string]string

// Get implements [Labels].
func (m LabelMap) Get(key string) (string, bool) {
	v, ok := m[key]
	return v, ok
}

// Label is one key and its value.
type Label struct{ Key, Value string }

// LabelSet is a set of labels sorted by key, with each key once. It is smaller than a map and never
// changes, so it can be kept with every cached object. Make one with [NewLabelSet].
//
// Passing a LabelSet to Matches by value copies its header to the heap; pass a pointer (&set) on
// hot paths.
type LabelSet []Label

// NewLabelSet copies a map into a set; an empty map gives nil.
func NewLabelSet(m map[string]string) LabelSet {
	if len(m) == 0 {
		return nil
	}
	set := make(LabelSet, 0, len(m))
	for k, v := range m {
		set = append(set, Label{Key: k, Value: v})
	}
	slices.SortFunc(set, func(a, b Label) int { return strings.Compare(a.Key, b.Key) })
	return set
}

// shortSet is the length up to which a linear search is faster than a binary search: most
// comparisons for equality end at the lengths of the keys.
const shortSet = 16

// Get implements [Labels].
func (s LabelSet) Get(key string) (string, bool) {
	if len(s) <= shortSet {
		for i := range s {
			if s[i].Key == key {
				return s[i].Value, true
			}
		}
		return "", false
	}
	i, ok := slices.BinarySearchFunc(s, key, func(l Label, key string) int { return strings.Compare(l.Key, key) })
	if !ok {
		return "", false
	}
	return s[i].Value, true
}

var (
	_ Labels = LabelMap(nil)
	_ Labels = LabelSet(nil)
)
