package registry

import (
	"hash/maphash"
	"iter"
	"maps"
)

// mapShards is into how many parts a table is divided: a change copies the parts it touches, and nothing else.
const mapShards = 256

// shardedMap is an immutable map. A change of a large one costs a small part of it, since the next table shares what did not
// change. The zero value is empty.
type shardedMap[K comparable, V any] struct {
	seed   maphash.Seed
	shards *[mapShards]map[K]V
}

func (t shardedMap[K, V]) get(key K) (V, bool) {
	if t.shards == nil {
		var none V
		return none, false
	}
	v, ok := t.shards[maphash.Comparable(t.seed, key)%mapShards][key]
	return v, ok
}

// all walks the table in no order.
func (t shardedMap[K, V]) all() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if t.shards == nil {
			return
		}
		for _, shard := range t.shards {
			for k, v := range shard {
				if !yield(k, v) {
					return
				}
			}
		}
	}
}

// edit begins the next table.
func (t shardedMap[K, V]) edit() *shardedEdit[K, V] {
	return &shardedEdit[K, V]{next: t}
}

// shardedEdit is a table that is being made from another one. It belongs to one goroutine.
type shardedEdit[K comparable, V any] struct {
	next  shardedMap[K, V]
	began bool
	own   [mapShards]bool // copied already
}

func (e *shardedEdit[K, V]) get(key K) (V, bool) { return e.next.get(key) }

func (e *shardedEdit[K, V]) set(key K, value V) { e.shard(key)[key] = value }

func (e *shardedEdit[K, V]) delete(key K) { delete(e.shard(key), key) }

// shard returns the part that a key belongs to, which from now on is the edit's own.
func (e *shardedEdit[K, V]) shard(key K) map[K]V {
	if !e.began {
		e.began = true
		shards := [mapShards]map[K]V{}
		if e.next.shards != nil {
			shards = *e.next.shards
		} else {
			e.next.seed = maphash.MakeSeed()
		}
		e.next.shards = &shards
	}
	i := maphash.Comparable(e.next.seed, key) % mapShards
	if !e.own[i] {
		e.own[i] = true
		if e.next.shards[i] = maps.Clone(e.next.shards[i]); e.next.shards[i] == nil {
			e.next.shards[i] = map[K]V{}
		}
	}
	return e.next.shards[i]
}
