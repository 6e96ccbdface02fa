package watch

import (
	"iter"

	"github.com/kindwright/kindwright/internal/ordered"
)

// selection is how a walk over a snapshot finds what a filter matches: by an index, or by looking at
// every object below a prefix. It counts what it looks at in vain.
type selection struct {
	snapshot *Snapshot
	filter   *Filter
	prefix   string

	postings *ordered.Set[posting] // nil: by all keys
	values   []string              // of the index
	whole    bool                  // the values are all that the filter says
	missing  []term                // that have no index

	inVain int
}

// Select yields what Ascend does, but only the objects that a filter matches. If the kind has an index
// for a part of the filter it looks at no others. It makes such an index, within
// [CacheConfig].MaxIndexes, when selectors have looked at many objects in vain. For errors see
// [Snapshot.Err].
func (s *Snapshot) Select(f Filter, after string) iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		by := s.selection(&f, after)
		for entry := range by.from(after) {
			if !yield(entry) {
				break
			}
		}
		by.end()
	}
}

// selection chooses the index with the fewest objects, if that is less than half of what is below the
// filter's prefix.
func (s *Snapshot) selection(f *Filter, after string) *selection {
	by := &selection{snapshot: s, filter: f, prefix: f.KeyPrefix(s.cache.config.StorageName)}
	if s.tree == nil || f.Whole() {
		return by
	}
	const few = 2 * maxRanges // an index is not worth while for so few objects
	all := count(s.tree, by.prefix, after)
	if all <= few {
		return by
	}
	least := all / 2
	now := s.clock.Add(1)
	wanted, whole := f.wanted()
	for _, want := range wanted {
		x := s.index(want.term)
		if x == nil {
			by.missing = append(by.missing, want.term)
			continue
		}
		x.used.Store(now)
		n := 0
		for _, value := range want.values {
			n += by.count(x.postings, value, after)
		}
		if n < least {
			by.postings, by.values, by.whole, least = x.postings, want.values, whole, n
		}
	}
	return by
}

func (s *Snapshot) index(t term) *index {
	for i := range s.indexes {
		if s.indexes[i].term == t {
			return &s.indexes[i]
		}
	}
	return nil
}

// count returns how many objects with a value are below the prefix and after a key.
func (by *selection) count(postings *ordered.Set[posting], value, after string) int {
	end := at(value+"\x00", "")
	if next, ok := afterPrefix(by.prefix); ok {
		end = at(value, next)
	}
	return max(0, postings.Rank(end)-postings.Rank(at(value, by.start(after))))
}

// start returns the first key that a walk may come to.
func (by *selection) start(after string) string {
	if after < by.prefix {
		return by.prefix
	}
	return after + "\x00"
}

// at is a place in an index.
func at(value, key string) posting { return posting{value, placeOf(key)} }

// from walks over the objects that the filter matches and that come after a key.
func (by *selection) from(after string) iter.Seq[*Entry] {
	walk := by.snapshot.Ascend(by.prefix, after)
	if by.postings != nil {
		walk = by.merge(after)
	}
	if by.whole || by.filter.Whole() {
		return walk
	}
	return func(yield func(*Entry) bool) {
		for entry := range walk {
			if !by.filter.matches(entry) {
				by.inVain++
			} else if !yield(entry) {
				return
			}
		}
	}
}

// merge walks over the objects with one of the values in the order of their keys.
func (by *selection) merge(after string) iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		heads := make([]head, 0, len(by.values))
		for _, value := range by.values {
			h := head{walk: by.postings.Walk(at(value, by.start(after))), left: by.count(by.postings, value, after)}
			if h.load() {
				heads = append(heads, h)
			}
		}
		for len(heads) > 0 {
			first := 0
			for i := range heads[1:] {
				if heads[1+i].entry.key < heads[first].entry.key {
					first = 1 + i
				}
			}
			h := &heads[first]
			if !yield(h.entry) {
				return
			}
			if h.next(); !h.load() {
				heads = append(heads[:first], heads[first+1:]...)
			}
		}
	}
}

// head is the next object of a value. The objects are counted beforehand: to look at their values and
// keys would cost more than the rest of the walk, because they are scattered over memory.
type head struct {
	walk  *ordered.Walk[posting]
	left  int
	entry *Entry
}

// load takes the object at the walk's position, if there is one left.
func (h *head) load() bool {
	p, ok := h.walk.Item()
	h.entry = p.entry
	return ok && h.left > 0
}

func (h *head) next() {
	h.walk.Next()
	h.left--
}

// end tells the cache what the walks have looked at in vain.
func (by *selection) end() {
	by.snapshot.cache.inVain(by.missing, by.inVain)
	by.missing = nil
}
