// Package memory keeps a store in the process. It is the second, readable definition of the
// contract in package storage. It is also a fast backend for tests and for servers whose objects
// may be lost when they stop.
//
// It keeps every commit since the last compaction. A kindwright server compacts it, by what
// Watches.History says; another program calls [storage.Store.Retain] or Compact itself. Nothing
// survives the process. A store starts at the current time in microseconds. That is above any
// revision of an earlier store, unless that one made more than a million commits a second. For
// objects that must survive, read storage/bbolt next.
//
// The state is small (see [DB]): an ordered map from each key to its versions, a log of commits,
// and the two revisions between which both are complete. Lists look versions up, and watches walk
// the log.
package memory
