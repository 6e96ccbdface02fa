// Package ordered is the house's one door to an ordered map: string keys in
// byte order, with copies that cost nothing until somebody writes.
//
// It is for indexes that many goroutines read while one writes: the writer
// changes its [Map] under its own lock, takes a [Map.Snapshot] under that same
// lock, and hands the snapshot to readers who need no lock at all.
//
// It is not a concurrent map: it has no lock of its own. It keeps no history
// and knows no prefixes; package watch builds both on top of it.
package ordered
