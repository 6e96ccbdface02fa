package engine

import (
	"hash/maphash"
	"iter"
	"maps"
)

// shardSize is the average number of entries per shard at which the map is divided anew.
const shardSize = 16

// shardedMap is an immutable map. It is divided into shards: a change copies the shards that it
// touches, and the next map shares the others. The zero value is empty.
type shardedMap[K comparable, V any] struct {
	seed   maphash.Seed
	shards []map[K]V // a power of two
	size   int
}

func (t shardedMap[K, V]) get(key K) (V, bool) {
	if len(t.shards) == 0 {
		var none V
		return none, false
	}
	v, ok := t.shards[t.shard(key)][key]
	return v, ok
}

// shard returns the number of the shard that a key belongs to.
func (t shardedMap[K, V]) shard(key K) uint64 {
	return maphash.Comparable(t.seed, key) & uint64(len(t.shards)-1)
}

// all iterates over the map in no particular order.
func (t shardedMap[K, V]) all() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, shard := range t.shards {
			for k, v := range shard {
				if !yield(k, v) {
					return
				}
			}
		}
	}
}

// edit starts the next map.
func (t shardedMap[K, V]) edit() *shardedEdit[K, V] { return &shardedEdit[K, V]{next: t} }

// shardedEdit builds a new shardedMap from another. It belongs to one goroutine.
type shardedEdit[K comparable, V any] struct {
	next shardedMap[K, V]
	own  []bool // the parts that were copied already; nil before the first change
}

func (e *shardedEdit[K, V]) get(key K) (V, bool) { return e.next.get(key) }

func (e *shardedEdit[K, V]) set(key K, value V) {
	shard := e.owned(key)
	if _, replaced := shard[key]; !replaced {
		e.next.size++
	}
	shard[key] = value
	if e.next.size > shardSize*len(e.next.shards) {
		e.divide(2 * len(e.next.shards))
	}
}

func (e *shardedEdit[K, V]) delete(key K) {
	shard := e.owned(key)
	if _, there := shard[key]; there {
		e.next.size--
		delete(shard, key)
	}
}

// owned returns the shard of a key, after copying it for the edit if necessary.
func (e *shardedEdit[K, V]) owned(key K) map[K]V {
	if len(e.next.shards) == 0 {
		e.next.seed = maphash.MakeSeed()
		e.divide(1)
	}
	if e.own == nil {
		e.next.shards, e.own = append([]map[K]V(nil), e.next.shards...), make([]bool, len(e.next.shards))
	}
	i := e.next.shard(key)
	if !e.own[i] {
		e.own[i] = true
		e.next.shards[i] = maps.Clone(e.next.shards[i])
	}
	return e.next.shards[i]
}

// divide splits the map into n shards.
func (e *shardedEdit[K, V]) divide(n int) {
	before := e.next
	e.next.shards, e.own = make([]map[K]V, n), make([]bool, n)
	for i := range e.next.shards {
		e.next.shards[i], e.own[i] = map[K]V{}, true
	}
	for k, v := range before.all() {
		e.next.shards[e.next.shard(k)][k] = v
	}
}
