package ordered

import (
	"iter"
	"sort"

	"github.com/tidwall/btree"
)

// degree sets the width of a tree node: at most 2*degree-1 items. Wide nodes make reads cheap, but
// a write after a snapshot expensive, because it copies one node per level. This value measured
// best for lists of thousands of keys with a snapshot every few dozen writes.
const degree = 32

// item is an item of a tree node. It has no methods on purpose: the tree calls the Copy method of
// its items if there is one.
type item[V any] struct {
	key   string
	value V
}

// Map is an ordered map from string keys to values.
//
// Writers: Set, Delete and Snapshot need the writer's lock; taking a snapshot
// writes to the map it is taken from. Readers: every other method may run
// concurrently with other readers, and on a snapshot that nobody changes it
// needs no lock. The zero value is not usable; call [New].
type Map[V any] struct {
	tree *btree.BTreeG[item[V]]
}

// New returns an empty map.
func New[V any]() *Map[V] {
	less := func(a, b item[V]) bool { return a.key < b.key }
	return &Map[V]{tree: btree.NewBTreeGOptions(less, btree.Options{Degree: degree, NoLocks: true})}
}

// Set stores value under key and returns the value it replaced, if any.
func (m *Map[V]) Set(key string, value V) (previous V, replaced bool) {
	old, replaced := m.tree.Set(item[V]{key: key, value: value})
	return old.value, replaced
}

// Get returns the value under key.
func (m *Map[V]) Get(key string) (V, bool) {
	found, ok := m.tree.Get(item[V]{key: key})
	return found.value, ok
}

// Delete removes key and returns the value it had, if any.
func (m *Map[V]) Delete(key string) (previous V, deleted bool) {
	old, deleted := m.tree.Delete(item[V]{key: key})
	return old.value, deleted
}

// Len returns the number of keys. It takes constant time.
func (m *Map[V]) Len() int { return m.tree.Len() }

// Depth returns the number of tree levels: how many nodes the first write to a
// key copies after a snapshot. It is 0 for an empty map.
func (m *Map[V]) Depth() int { return m.tree.Height() }

// Snapshot returns a copy that shares all its nodes with m. Later writes to
// either do not show in the other. Call it only under the lock that guards
// writes to m: it marks m's nodes as shared, which is a write.
func (m *Map[V]) Snapshot() *Map[V] { return &Map[V]{tree: m.tree.Copy()} }

// Ascend yields the keys from from (inclusive) with their values, in byte order. The map must not
// be modified during the iteration; a snapshot never is. Only the iterator itself allocates.
func (m *Map[V]) Ascend(from string) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		m.tree.Ascend(item[V]{key: from}, func(it item[V]) bool { return yield(it.key, it.value) })
	}
}

// After is [Map.Ascend] for the keys greater than key, which need not exist. Use it to resume a
// walk.
func (m *Map[V]) After(key string) iter.Seq2[string, V] {
	// No string lies between key and key+"\x00", so the inclusive walk from there
	// is the exclusive walk from key.
	return m.Ascend(key + "\x00")
}

// Rank returns how many keys come before key, which need not exist. It takes O(log²n) and visits no
// values. To count a range, subtract two ranks.
func (m *Map[V]) Rank(key string) int {
	return sort.Search(m.tree.Len(), func(i int) bool {
		found, ok := m.tree.GetAt(i)
		return !ok || found.key >= key
	})
}
