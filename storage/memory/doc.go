// Package memory keeps a store in the process: the second, readable definition
// of the contract in package storage, and a fast backend for tests and for
// servers whose objects may go when they stop.
//
// It keeps every commit since the last compaction, so somebody must call
// [storage.Store.Retain] or Compact where much is written. Nothing survives the
// process: a store begins at the current time in microseconds, above anything an
// earlier one issued as long as that made fewer than a million commits a second.
// For objects that must survive read storage/bbolt next.
//
// The state is small enough to hold in the head (see [DB]): an ordered map from
// each key to its versions, a log of commits, and the two revisions between
// which both are complete. Lists look versions up, watches walk the log.
package memory
