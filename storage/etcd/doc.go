// Package etcd stores objects in etcd, so that several servers share one consistent store.
//
// [Open] returns a [storage.Backend]. Servers that open the same prefix of the same cluster are one
// API: a write through any of them is seen by the next read through any other.
//
// # What is in etcd
//
// Everything lies below Config.Prefix:
//
//	<prefix>/d/…       the records: "d", then the key of package storage
//	<prefix>/m/owner   who the store belongs to, in which cluster, and how far that had come
//	<prefix>/m/base    how revisions of etcd become revisions of the store
//	<prefix>/m/wide    how many revisions the newest commit took that took more than one
//
// A value begins with nine bytes of ours: how far the revision of the record lies below the last one
// of its commit, and a number that tells this commit from all others. A value that was imported from
// another store begins with ten others: a mark, its revision there, and a 1.
//
// # Revisions
//
// A commit is one transaction of etcd. Its last revision is base + 128 × the revision of etcd. The
// base of a new store is chosen so that revisions begin at the current time in microseconds. So a
// store never begins below versions that an earlier one gave out, and a store that is moved, or
// restored from a backup of etcd, gets a higher base. [DB.Advance] and Config.Restored set it.
//
// # Failures
//
// No request is sent twice unless the second one cannot repeat the effect of the first. Etcd's own
// client retries transactions, so its retries are off. When the answer to a commit is lost, and one
// of its changes expects a revision, the commit is sent again: at most one of the two can succeed. If
// etcd refuses the second one, the number in the values says whether the first has happened.
//
// A member that answers nothing is given up after a while, and another one is asked. Calls end with
// storage.ErrUnavailable when no member that has a leader answers within Config.Timeout.
//
// # Compaction
//
// [DB.Compact] compacts the whole cluster, because etcd knows no other way. Give kindwright a cluster
// of its own, or agree with the neighbours on who compacts. A compaction by somebody else, or
// --auto-compaction-retention, shortens the history: readers that need more get storage.ErrCompacted
// and list again. They never miss a change.
//
// Etcd 3.5.13 or newer is needed: older ones report progress of watches before the changes.
package etcd
