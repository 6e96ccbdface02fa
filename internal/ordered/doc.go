// Package ordered is the only user of the ordered-map library: string keys in byte order, with
// copies that cost nothing until a write.
//
// It is for indexes that many goroutines read while one writes. The writer changes its [Map] and
// takes a [Map.Snapshot] under its own lock, and readers use the snapshot without a lock.
//
// It is not a concurrent map: it has no lock of its own. It keeps no history and knows no prefixes;
// package watch adds both.
package ordered
