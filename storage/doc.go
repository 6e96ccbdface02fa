// Package storage is the contract between kindwright and the place where its
// objects rest: bytes under keys, numbered by one increasing revision.
//
// [Backend] is the driver that a store implements; [Store] is what everybody else
// holds. Backends are in storage/memory (the contract as readable code) and
// storage/bbolt (one file); storage/storagetest proves the contract of each of them
// and of every wrapper. This package knows neither
// objects nor HTTP: what the bytes mean is the business of package registry, the
// live view of one resource that of package watch. Time to live, retries after a
// conflict and default values are not here either; they belong to the engine.
//
// What follows is what every backend promises. "Soon" means without waiting for
// another call, within the time the medium needs.
//
// # Keys
//
// A key is a sequence of segments, each ended by a slash, after a first slash.
// Because every key ends in the delimiter, and no segment can contain it, the
// prefix of "team" does not reach into "team-a" nor that of "widgets" into
// "widgetsets". Two families exist, made by [ObjectKey] and [SysKey]:
//
//	/r/<storage name>/<namespace>/<name>\x01/   objects; cluster-scoped ones have an empty namespace
//	/sys/<part>/<part>/                         what is never served: format, cluster id, token keys
//
// Within a segment "/" is written "%2F" and "%" is written "%25". Otherwise a
// segment may hold any byte but zero. The byte 1 behind a name sorts before all
// that can stand in one, so that the objects of a namespace are in the order of
// their names. Keys are compared and ordered as bytes:
// nothing is folded, normalised or cleaned. Prefixes are empty (everything) or
// whole segments with their final slash. Store accepts keys of [MaxKeyBytes].
//
// # Revisions
//
// Every commit that changes something takes one [Revision] for all its changes.
// Revisions increase, order all commits of the store, and are never reused: not
// after a failed commit, not after a restart, not after a restore from backup.
// Gaps are legal. A store opened again goes on where it was closed. A store that
// begins without a past begins above anything that may have been issued before
// under its name; storage/memory takes the current time in microseconds. The
// current revision is never 0.
//
// # Commits
//
// A commit is a list of puts, deletes and checks on distinct keys, each with an
// expectation. Expectations are compared with the state that all earlier
// commits left, and either every operation happens at one revision or nothing
// does. A failed expectation is a [*ConflictError] that names the first such
// operation's key and what was found. A check writes nothing. A commit that
// changes nothing takes no revision and answers the current one.
//
// A commit changes at most one key below each "/r/<storage name>/". Store refuses
// more, because a watch of one resource resumes after a revision and could not
// name a place between two changes of it.
//
// A commit is acknowledged when it is durable (in memory: visible); every call
// that begins afterwards sees it. An error means that the commit did not happen
// and never will, with one exception: [ErrUnknownOutcome], when the medium did
// not say or the context ended at the wrong moment. Such a commit has happened
// whole or not at all, or will so soon. Nobody repeats it blindly: the caller
// reads the keys again and compares. After a conflict the caller reads and
// decides anew. After a sync that failed, a backend acknowledges no further
// commit: it answers [ErrClosed] to all writers and says why in [Health].
//
// # Reads
//
// Get, Revision and a List without a revision are linearizable: they see every
// commit that was acknowledged before they began, and never one that may still
// vanish. A List at a revision within the retained history is exact: the same
// request always has the same answer, whatever is written meanwhile. Outside of
// it the answer is [ErrCompacted] or [ErrFutureRevision], never a guess. A page is
// bounded and holds nothing open; the next one names the revision and the last
// key of this one.
//
// # Watches
//
// Watch delivers every change below a prefix with a revision greater than the
// one given, once, in order, with the previous record of each key; one batch
// holds all matching changes of one revision. Any revision from the compacted
// one to the current one can be resumed from, so a watcher that kept the
// revision of its last batch misses nothing and sees nothing twice. A watch that
// cannot go on says so, as its last pair: [ErrCompacted] when history it has not
// delivered is gone (list afresh), [ErrClosed], the context's error, or what
// befell the medium (resume from the last revision). It never ends in silence
// and never skips.
//
// Changes elsewhere move the revision without a batch for this watch. After
// [Backend].Revision has answered R, every running watch soon reaches R: if no
// matching change brings it there, a batch marked Progress does, and no change at
// or below its revision comes later. Backends may send progress more often.
//
// A watch is a sequence that runs in its caller's goroutine. Nothing exists
// before the range statement, and breaking out of it releases everything. A slow
// consumer delays no writer and no other watcher.
//
// # History and compaction
//
// History reaches back to the compacted revision C: lists at R >= C and watches
// after R >= C are valid. A fresh store has compacted everything before its
// first revision. Compact moves C and keeps each key's newest record at or below
// C, without which the next change could not name its previous record; deleted
// keys vanish for good. Compacting takes no revision and cannot be undone.
// [Store.Retain] compacts what is older than a window and nothing in the first
// window after it started, and history itself survives a restart where the
// records do; so watches and continue tokens outlive one.
//
// # Closing
//
// Close may be called at any time. Running watches end with ErrClosed. Calls in
// progress finish or fail; a commit with an open outcome fails with
// ErrUnknownOutcome. Later calls fail with ErrClosed. When Close returns, the
// backend has no goroutines left and has released its resources. Close does not wait
// for readers of watches, which notice at their next step; the caller may be one of
// them. A second Close returns nil.
//
// # Ownership
//
// Nobody may change a value after it was passed in or returned: the backend may
// keep the slice of a put, and gives the same bytes to every reader. A page's slice
// of records belongs to the caller; a batch's slice of changes is shared.
//
// # Contexts
//
// Every method returns soon after its context ends, with an error that wraps the
// context's, unless the result is at hand. A call whose context has already ended
// commits nothing.
package storage
