package ordered

import (
	"iter"
	"sort"

	"github.com/tidwall/btree"
)

// Set is an ordered set of items by an order of their own. The rules for writers and readers are
// those of [Map]. An item must have no Copy method: the tree would call it.
type Set[T any] struct {
	tree *btree.BTreeG[T]
	less func(a, b T) bool
}

// NewSet returns an empty set. Items of which neither is less than the other are the same. Its nodes are
// narrower than those of a Map: there are several sets for one Map, and each is written with it.
func NewSet[T any](less func(a, b T) bool) *Set[T] {
	return &Set[T]{tree: btree.NewBTreeGOptions(less, btree.Options{Degree: degree / 2, NoLocks: true}), less: less}
}

// Add stores an item in the place of the same one.
func (s *Set[T]) Add(item T) { s.tree.Set(item) }

// Load is Add for an item that comes after all others. It is faster.
func (s *Set[T]) Load(item T) { s.tree.Load(item) }

// Remove removes an item.
func (s *Set[T]) Remove(item T) { s.tree.Delete(item) }

// Get returns the item of the set that is the same as one.
func (s *Set[T]) Get(as T) (item T, ok bool) { return s.tree.Get(as) }

// Ascend yields the items from one (inclusive), which need not be in the set, in their order. The set
// must not be modified during the iteration.
func (s *Set[T]) Ascend(from T) iter.Seq[T] {
	return func(yield func(T) bool) { s.tree.Ascend(from, yield) }
}

// Len returns the number of items. It takes constant time.
func (s *Set[T]) Len() int { return s.tree.Len() }

// Depth is [Map.Depth].
func (s *Set[T]) Depth() int { return s.tree.Height() }

// Snapshot is [Map.Snapshot].
func (s *Set[T]) Snapshot() *Set[T] { return &Set[T]{s.tree.Copy(), s.less} }

// Rank returns how many items come before one, which need not be in the set.
func (s *Set[T]) Rank(of T) int {
	return sort.Search(s.tree.Len(), func(i int) bool {
		found, ok := s.tree.GetAt(i)
		return !ok || !s.less(found, of)
	})
}

// Walk begins a walk at an item, which need not be in the set. The set must not be modified while
// somebody walks; a snapshot never is.
func (s *Set[T]) Walk(from T) *Walk[T] {
	w := &Walk[T]{at: s.tree.Iter()}
	w.ok = w.at.Seek(from)
	return w
}

// Walk is a position in a set.
type Walk[T any] struct {
	at btree.IterG[T]
	ok bool
}

// Item returns the item at the position; ok is false at the end.
func (w *Walk[T]) Item() (item T, ok bool) {
	if !w.ok {
		return item, false
	}
	return w.at.Item(), true
}

// Next moves to the next item.
func (w *Walk[T]) Next() { w.ok = w.ok && w.at.Next() }
