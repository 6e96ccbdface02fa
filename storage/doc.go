// Package storage is the contract between kindwright and its stores: bytes under keys, numbered by
// one increasing revision.
//
// [Backend] is the driver that a store implements. [Store] is what the rest of the library holds.
// Backends are in storage/memory (the contract as readable code), storage/bbolt (one file) and the
// module storage/etcd (a cluster that several servers share). storage/copy moves a store from one to
// another. storage/storagetest proves the contract for each of them and for every wrapper. This
// package knows neither objects nor HTTP: internal/engine gives the bytes a meaning, and package
// watch keeps the live view of one resource. Time to live, retries after a conflict and default
// values belong to the engine.
//
// The rest of this page is what every backend promises. "Soon" means without waiting for another
// call, within the time that the medium needs.
//
// # Keys
//
// A key is a slash, followed by segments that each end in a slash. Every key ends in the delimiter,
// and no segment contains it. So the prefix of "team" does not reach into "team-a", nor that of
// "widgets" into "widgetsets". [ObjectKey] and [SysKey] make the two families of keys:
//
//	/r/<storage name>/<namespace>/<name>\x01/   objects; cluster-scoped ones have an empty namespace
//	/sys/<part>/<part>/                         never served: format, cluster id, token keys
//
// Within a segment "/" is written "%2F" and "%" is written "%25". Otherwise a segment may contain
// any byte but zero. The byte 1 after a name sorts before all bytes of names, so the objects of a
// namespace are in the order of their names. Keys are compared and ordered as bytes, without any
// folding, normalisation or cleaning. A prefix is empty (everything) or consists of whole segments
// with their final slash. Store accepts keys of up to [MaxKeyBytes].
//
// # Revisions
//
// Every commit that changes something takes a [Revision] of its own. If it changes several keys of
// one resource, each further one, in the order of keys, takes the next revision: a watch of the
// resource can resume between any two changes. [RevisionOf] says which change has which revision.
// Revisions increase, order all commits of the store, and are never reused: not after a failed
// commit, not after a restart, not after a restore from backup. Gaps are legal. A store that is
// opened again continues where it was closed. A store without its past starts above anything that
// may have been issued before under its name; storage/memory uses the current time in microseconds.
// Whoever moves data to another store takes that one above all revisions of the first ([Advancer]).
// The current revision is never 0.
//
// # Commits
//
// A commit is a list of puts, deletes and checks on distinct keys, each with an expectation.
// Expectations are compared with the state that all earlier commits left. Either every operation
// happens, or none does, and nobody sees a part of them. A failed expectation is a [*ConflictError] with the key of
// the first such operation and the revision that was found. A check writes nothing. A commit that
// changes nothing takes no revision and returns the current one.
//
// A delete that expects nothing may find nothing to do. In a commit that changes another key of its
// resource, the revisions of the others would depend on that, so Store rejects it there.
//
// A commit is acknowledged when it is durable (in memory: visible), and every call that starts
// afterwards sees it. An error means that the commit did not happen and never will, with one
// exception: [ErrUnknownOutcome], if the medium did not answer or the context ended at the wrong
// moment. Such a commit has happened completely or not at all, or will soon. A caller must not
// repeat it blindly: it reads the keys again and compares. The answer is final once a key of the
// commit has another revision than the one expected: then the commit has happened, or never will.
// While all keys are as expected, it may still happen. A commit that expects nothing of the keys it
// changes cannot be settled in this way. After a conflict the caller reads and decides again. With
// [ErrUnavailable] nothing was committed, and the same call may succeed later. After a failed sync, a backend acknowledges no more commits: all writes fail with
// [ErrClosed], and [Health] gives the reason.
//
// # Reads
//
// Get, Revision and a List without a revision are linearizable. They see every commit that was
// acknowledged before they started, and never one that may still vanish. A List at a revision
// within the retained history is exact: the same request always has the same answer, whatever is
// written meanwhile. Outside the history the answer is [ErrCompacted] or [ErrFutureRevision], never
// a guess. A page is bounded and holds nothing open. The request for the next page names the
// revision and the last key of this one.
//
// One record that cannot be read, because it is damaged or its key of encryption is missing, does
// not hide the others: it is returned with its key, its revision and the reason ([ErrUnreadable]).
//
// # Watches
//
// Watch delivers every change below a prefix with a revision greater than the given one, once, in
// order. One batch holds all matching changes of one commit. A watch can resume from any revision
// from the compacted one to the current one. So a watcher that kept the revision of its last batch
// misses nothing and sees nothing twice. A watch that cannot continue says so in its last pair:
// [ErrCompacted] if undelivered history is gone (list again), [ErrUnavailable] (resume later),
// [ErrClosed], the context's error, or the medium's (resume from the last revision). It never ends
// silently and never skips a change.
//
// Changes elsewhere advance the revision without a batch for this watch. When a watch has caught up
// with the revision that was the current one at its start, it says so: with a batch, or with one
// marked Progress. After [Backend].Sync of its prefix, or of one above it, has returned R, a running
// watch soon reaches R in the same way. No change at or below the revision of a Progress comes
// later. Backends may send progress more often.
//
// A watch is a sequence that runs in its caller's goroutine. It holds no resources before the range
// statement, and breaking out of it releases everything. A slow consumer delays no writer and no
// other watcher. A reader that is far behind asks for History instead, page by page; there it can
// have the previous record of each key, too.
//
// # History and compaction
//
// History reaches back to the compacted revision C: lists at R >= C and watches after R >= C are
// valid. A new store has compacted everything before its first revision. Compact moves C. It keeps
// each key's newest record at or below C, which the next change needs as its previous record;
// deleted keys vanish for good. Compacting takes no revision and cannot be undone. [Store.Retain]
// compacts what is older than a window, and nothing in the first window after it started. If the
// records survive a restart, so does the history. So watches and continue tokens survive it too.
//
// # Closing
//
// Close may be called at any time. Running watches end with ErrClosed. Calls in progress finish or
// fail; a commit with an open outcome fails with ErrUnknownOutcome. Later calls fail with
// ErrClosed. When Close returns, the backend has no goroutines left and has released its resources.
// Close does not wait for readers of watches, which notice at their next step; the caller may be
// one of them. A second Close returns nil.
//
// # Ownership
//
// Nobody may change a value after it was passed in or returned: the backend may keep the slice of a
// put, and gives the same bytes to every reader. A page's slice of records belongs to the caller. A
// batch's slice of changes is shared.
//
// # Contexts
//
// Every method returns soon after its context ends, with an error that wraps the context's, unless
// the result is at hand. A call whose context has already ended commits nothing.
package storage
