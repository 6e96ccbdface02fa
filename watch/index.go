package watch

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/kindwright/kindwright/internal/ordered"
	"github.com/kindwright/kindwright/meta"
)

// term is what an index is of: the values of a label or a field. An index by presence has all objects
// with a label, under the value "".
type term struct {
	name     string
	field    bool
	presence bool
}

// of returns the value under which an index has an object; ok is false if it does not have it. A
// field that an object lacks counts as empty, as in selectors.
func (t term) of(e *Entry) (value string, ok bool) {
	switch {
	case e == nil:
		return "", false
	case t.field:
		value, _ = (*entryFields)(e).Get(t.name)
		return value, true
	}
	value, ok = (*entryLabels)(e).Get(t.name)
	if t.presence {
		value = ""
	}
	return value, ok
}

// posting is an item of an index. They are in the order of values and then of storage keys, so the
// objects of a value are together and in the order of a list.
type posting struct {
	value string
	entry *Entry
}

func comesFirst(a, b posting) bool {
	if a.value != b.value {
		return a.value < b.value
	}
	return a.entry.key < b.entry.key
}

// index has the objects of a kind by the values of a label or a field. Guarded by the cache's lock.
type index struct {
	term     term
	postings *ordered.Set[posting]
	used     *atomic.Uint64 // when it was used last, by the clock of indexes
}

// change puts the next state of an object in the place of the previous one. It returns how many nodes
// it may have copied.
func (x *index) change(prev, next *Entry) (copied int) {
	was, had := x.term.of(prev)
	is, has := x.term.of(next)
	if had && (!has || was != is) {
		x.postings.Remove(posting{was, prev})
		copied += x.postings.Depth()
	}
	if has {
		x.postings.Add(posting{is, next})
		copied += x.postings.Depth()
	}
	return copied
}

const (
	// defaultMaxIndexes is how many indexes a kind has at most. Each costs a write about as much as the tree
	// of all objects does, and an item of 24 bytes for each object.
	defaultMaxIndexes = 8
	// leastInVain is how many objects selectors must have looked at in vain before an index is made.
	// For a small kind it would save nothing worth the memory.
	leastInVain = 4096
	// maxAsked is how many terms are counted that have no index.
	maxAsked = 64
	// idleSelects is how many selections an index must not have served before another takes its place.
	idleSelects = 64
)

// indexes are the indexes of a cache. They are made when selectors have looked at many objects in vain,
// so a kind that nobody selects from pays nothing. Guarded by the cache's lock.
type indexes struct {
	made   []index
	shared []index // copies for the next snapshot, as Cache.shared
	max    int

	asked    map[term]int // objects that were looked at in vain, by what has no index
	building *building
	clock    *atomic.Uint64 // counts selections
}

// building is an index that is being made beside the cache, and what has changed meanwhile.
type building struct {
	term    term
	changes []change
}

// change applies a change of an object. It returns how many nodes it may have copied.
func (x *indexes) change(prev, next *Entry, objects int) (copied uint64) {
	for i := range x.made {
		copied += uint64(x.made[i].change(prev, next))
	}
	if x.building != nil {
		x.building.changes = append(x.building.changes, change{prev: prev, next: next})
		if len(x.building.changes) > objects+leastInVain {
			x.building = nil // it would never be done
		}
	}
	return copied
}

// share makes the copies that snapshots use.
func (x *indexes) share() {
	x.shared = cloneIndexes(x.made)
}

func cloneIndexes(of []index) []index {
	out := slices.Clone(of)
	for i := range out {
		out[i].postings = out[i].postings.Snapshot()
	}
	return out
}

// drop forgets all indexes, because all objects may have changed.
func (x *indexes) drop() { x.made, x.shared, x.asked, x.building = nil, nil, nil, nil }

// fork returns the indexes for a copy of the cache.
func (x *indexes) fork(most int) indexes {
	return indexes{made: cloneIndexes(x.made), max: most, clock: &atomic.Uint64{}}
}

// wants counts objects that were looked at in vain. It returns the term whose index is to be made now,
// if there is one, and makes room for it.
func (x *indexes) wants(missing []term, inVain, objects int) (t term, ok bool) {
	for _, t := range missing {
		if slices.ContainsFunc(x.made, func(have index) bool { return have.term == t }) {
			continue // since the snapshot
		}
		if _, known := x.asked[t]; !known && len(x.asked) >= maxAsked {
			x.asked = nil
		}
		if x.asked == nil {
			x.asked = map[term]int{}
		}
		if x.asked[t] += inVain; x.building == nil && x.asked[t] >= max(leastInVain, 2*objects) {
			delete(x.asked, t)
			return t, x.room()
		}
	}
	return term{}, false
}

// room reports whether there may be one more index. It drops one that nobody uses any more.
func (x *indexes) room() bool {
	if len(x.made) < x.max {
		return true
	}
	now := x.clock.Load()
	for i := range x.made {
		if x.made[i].used.Load()+idleSelects < now {
			x.made, x.shared = slices.Delete(x.made, i, i+1), nil
			return true
		}
	}
	return false
}

// inVain tells the cache that a selection has looked at objects in vain for want of indexes, and makes
// one if that has happened often enough to pay for it. The caller must not hold the lock.
func (c *Cache) inVain(missing []term, objects int) {
	if len(missing) == 0 || objects == 0 {
		return
	}
	c.mu.Lock()
	t, ok := term{}, false
	if c.err == nil && c.indexes.max > 0 {
		t, ok = c.indexes.wants(missing, objects, c.tree.Len())
	}
	if !ok {
		c.mu.Unlock()
		return
	}
	under := &building{term: t}
	c.indexes.building = under
	c.share()
	all := c.shared
	c.mu.Unlock()

	made := makeIndex(t, all)

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.indexes.building != under {
		return // all has changed
	}
	c.indexes.building = nil
	for i := range under.changes {
		made.change(under.changes[i].prev, under.changes[i].next)
	}
	made.used.Store(c.indexes.clock.Load())
	c.indexes.made = append(c.indexes.made, made)
	c.shared, c.indexes.shared = nil, nil // the next snapshot has it
}

// makeIndex makes an index of all objects.
func makeIndex(t term, all *ordered.Set[*Entry]) index {
	var found []posting
	for entry := range all.Ascend(placeOf("")) {
		if value, ok := t.of(entry); ok {
			found = append(found, posting{value, entry})
		}
	}
	slices.SortStableFunc(found, func(a, b posting) int { return strings.Compare(a.value, b.value) })
	made := index{term: t, postings: ordered.NewSet(comesFirst), used: &atomic.Uint64{}}
	for _, p := range found {
		made.postings.Load(p)
	}
	return made
}

// maxRanges is how many values of a label are looked up one by one. Beyond that an index by presence
// is used.
const maxRanges = 16

// maxTerms is how many requirements of a filter are looked at to find the best index.
const maxTerms = 8

// wanted is a part of a filter that an index can answer: one of the values.
type wanted struct {
	term   term
	values []string
}

// wanted returns the parts of a filter that indexes can answer. Every object that the filter matches
// has one of the values of each. If whole, the filter says nothing else beside its key prefix.
func (f *Filter) wanted() (out []wanted, whole bool) {
	left := 0 // what indexes answer in part, or not at all
	if f.Shards != nil {
		left++
	}
	add := func(t term, values ...string) {
		if len(out) < maxTerms {
			out = append(out, wanted{t, values})
		}
	}
	if f.Name != "" {
		add(term{name: fieldName, field: true}, f.Name)
	}
	if !f.Fields.Empty() {
		for _, r := range f.Fields.Requirements() {
			if r.Op == meta.Equals && r.Field != fieldNamespace {
				add(term{name: r.Field, field: true}, r.Value)
			} else {
				left++
			}
		}
	}
	if f.Labels.Empty() {
		return out, left == 0 && len(out) == 1
	}
	for _, r := range f.Labels.RequirementsUpTo(maxRanges) {
		few := len(r.Values) > 0
		if r.Op != meta.Exists && (r.Op != meta.In || !few) {
			left++
		}
		switch {
		case r.Op == meta.In && few:
			add(term{name: r.Key}, r.Values...)
		case r.Op != meta.NotIn && r.Op != meta.DoesNotExist:
			add(term{name: r.Key, presence: true}, "")
		}
	}
	return out, left == 0 && len(out) == 1
}
