package storage

import (
	"context"
	"fmt"
	"io"
	"iter"
	"time"
)

// Backend is the interface that a store implements: few methods over bytes, keys and one increasing
// revision. The package comment is the complete contract; the comments here are its short form.
// Package storagetest tests an implementation against it.
//
// All methods are safe for concurrent use, including Close.
//
// A backend may rely on the checks of [Store]: keys and prefixes follow the grammar; a commit has 1
// to Limits.MaxOps operations on distinct keys with values of at most Limits.MaxValueBytes; no
// Delete expects Absent and no Check expects Any; a list's Limit is above 0 and its After is empty
// or below its Prefix. Keys can be longer than [MaxKeyBytes] if wrappers extend them, but not
// longer than twice that.
type Backend interface {
	// Get returns the newest record of a key. It is linearizable: it sees every commit acknowledged
	// before the call. Errors: ErrNotFound, ErrUnreadable (with the record's key, revision and Err),
	// ErrUnavailable, ErrClosed, the context's, or the medium's.
	Get(ctx context.Context, key string) (Record, error)

	// List returns one page. The page is exact at r.At, or linearizable and current if r.At is 0. If
	// r.At is a revision inside of a commit, the page is exact at the last revision of that commit.
	// List holds nothing open between pages. Errors: ErrCompacted if r.At is below the compacted
	// revision, ErrFutureRevision if it is above the current one, ErrUnavailable, ErrClosed, the
	// context's, or the medium's.
	List(ctx context.Context, r ListRequest) (Page, error)

	// Commit applies all operations, or none. It takes one new revision, and one more for each
	// further change of the same resource; [RevisionOf] says which operation has which. It returns
	// the last of them when the commit is durable (memory: visible), and every later call sees it. A
	// commit that changes nothing (only checks, or deletes of absent keys) takes no revision and
	// returns the current one.
	//
	// After an error nothing was and nothing will be committed, unless the error is
	// ErrUnknownOutcome. Errors: *ConflictError, ErrUnknownOutcome (also if ctx ends during the
	// commit; it then wraps the context's error too), ErrUnavailable, ErrClosed, the context's, or
	// the medium's.
	Commit(ctx context.Context, ops []Op) (Revision, error)

	// Watch yields every change below prefix with a revision greater than after: once each, in the
	// order of revisions, one batch per commit, first from history and then as commits happen. The
	// changes have no previous records.
	// Nothing happens until the caller ranges over the sequence. Each range starts again at after.
	// Breaking out of it releases everything.
	//
	// The sequence never ends without an error: its last pair, and only that one, has a non-nil
	// error. The error is ErrCompacted if changes after the reached position are gone (after may be
	// the compacted revision; a lower one is possible only where nothing is missing),
	// ErrFutureRevision if after is above the current revision, ErrUnavailable, ErrClosed, the
	// context's error, or the medium's. Watch never skips a change.
	//
	// Changes elsewhere need not advance a watch; [Backend].Sync makes it catch up.
	Watch(ctx context.Context, prefix string, after Revision) iter.Seq2[Batch, error]

	// History returns past changes below a prefix, a bounded number at a time, in the order and form
	// of a watch. It is for readers that are far behind. Errors: ErrCompacted if r.After is below the
	// compacted revision, or if a previous record that r asks for is gone; ErrFutureRevision if
	// r.After or r.Until is above the current revision; ErrUnavailable, ErrClosed, the context's, or
	// the medium's.
	History(ctx context.Context, r HistoryRequest) (HistoryPage, error)

	// Revision returns the current revision, linearizably: at least that of every commit
	// acknowledged before the call. It is never 0. Errors: ErrUnavailable, ErrClosed, the context's,
	// or the medium's.
	Revision(ctx context.Context) (Revision, error)

	// Sync is Revision, and makes watches catch up: every running watch whose prefix is equal to
	// prefix or below it soon yields a batch with at least the returned revision. If no change
	// matches, that batch is Progress. No change at or below a progress revision follows it.
	Sync(ctx context.Context, prefix string) (Revision, error)

	// Compact drops history. Afterwards lists at, and watches after, revisions below at fail with
	// ErrCompacted, while at itself and everything newer stay exact. Each key's newest record at or
	// below at is kept, so every change after at still has its previous record. A revision inside of
	// a commit stands for the one before that commit. Compacting at or below the compacted revision
	// does nothing. Errors: ErrFutureRevision if at is above the current revision, ErrUnavailable,
	// ErrClosed, the context's, or the medium's.
	Compact(ctx context.Context, at Revision) error

	// Limits returns the limits of one commit. They are constant and positive.
	Limits() Limits

	// Close ends the backend. Running watches end with ErrClosed. Running calls finish or fail with
	// ErrClosed; a commit with an open outcome fails with ErrUnknownOutcome. Later calls fail with
	// ErrClosed. Close returns when no goroutine of the backend runs any more. It does not wait for
	// readers of watches. Closing again returns nil.
	Close() error
}

// Limits are the limits that a backend sets for one commit.
type Limits struct {
	MaxValueBytes  int // of a single value
	MaxOps         int // operations in a commit, checks included
	MaxCommitBytes int // of all keys and values of a commit together
}

// Checker is implemented by backends that can verify their own integrity, for example checksums on
// disk. Find it with [As]. Check returns nil, an error that describes the damage, or the context's
// error. It changes nothing and may run concurrently with all other calls.
type Checker interface {
	Check(ctx context.Context) error
}

// Health is implemented by backends that can permanently stop accepting commits, for example after
// a failed sync. Healthy returns nil or the reason, without blocking; it never becomes nil again.
// Find it with [As]. Readiness checks use it.
type Health interface {
	Healthy() error
}

// Readiness is implemented by backends that can be out of reach for a while, as a server behind a
// network. Ready returns nil or the reason, without blocking. Unlike Healthy it may become nil
// again. Find it with [As]. Readiness checks use it.
type Readiness interface {
	Ready() error
}

// Space is implemented by backends that can run out of room. Room returns nil, or an ErrNoSpace with
// the reason while puts are refused, without blocking. Find it with [As]. Health checks use it.
type Space interface {
	Room() error
}

// Exclusive is implemented by backends whose data no other process can have open. Exclusive reports
// whether this is one. Find it with [As].
type Exclusive interface {
	Exclusive() bool
}

// Advancer is implemented by backends that can be taken beyond a revision without a change. After
// Advance the current revision is at least to, and every later commit is above it. Whoever fills a
// store with another one's data advances it above all revisions that the other one gave out, so that
// none is used twice. Errors: ErrInvalid if to is above HighestStart, ErrUnavailable, ErrClosed, the
// context's, or the medium's. Find it with [As].
type Advancer interface {
	Advance(ctx context.Context, to Revision) error
}

// Importer is implemented by backends that can take over the records of another store with the
// revisions that they have there. Package storage/copy uses it. The store must be one that nobody else
// uses: until an Import with Above, nothing is promised about its history, and its watches end or
// bring nothing.
//
// A wrapper that changes keys or values must not hand its Importer on, so callers ask the backend
// itself for it, without [As].
type Importer interface {
	// Import writes and deletes records, durably, all or none. Repeating it changes nothing. Records
	// written by an earlier Import are replaced; those of a commit cannot be. Its Limits are those of a
	// commit. Errors: ErrTooLarge, ErrInvalid, ErrUnknownOutcome, ErrUnavailable, ErrClosed, the
	// context's, or the medium's.
	Import(ctx context.Context, i Import) error
}

// Import is what [Importer] brings into a store.
type Import struct {
	Put    []Record // with their revisions, from 1 to HighestStart; the keys are distinct
	Delete []string // keys, which need not exist

	// Above, if not 0, is at least the revision of every imported record. It ends the imports: from
	// then on the current revision is above it, and everything up to there counts as compacted. It is at
	// most HighestStart.
	Above Revision
}

// Check returns ErrInvalid for an import that no store can take, whatever its limits: records without a
// value, revisions outside their range.
func (i Import) Check() error {
	for _, r := range i.Put {
		if r.Err != nil || r.Revision == 0 || r.Revision > HighestStart {
			return fmt.Errorf("%w: the record of %q has no value, or a revision that is not from 1 to %d", ErrInvalid, r.Key, HighestStart)
		}
	}
	return CheckStart(i.Above)
}

// Resident is implemented by backends that may keep the newest value of every key in memory and
// return it without copying. Resident reports whether this one does. If so, callers can keep values
// at no cost, while copies would double the memory. Find it with [As].
type Resident interface {
	Resident() bool
}

// Sized is implemented by backends that know how much space they take. Size returns it in bytes; ok
// is false if it is unknown. Find it with [As].
type Sized interface {
	Size() (bytes int64, ok bool)
}

// Dated is implemented by backends that keep the time of each commit. RevisionAt returns the
// revision that was the current one at a time, or the compacted revision if that is newer. Errors
// are ErrClosed, the context's, or the medium's. Find it with [As].
type Dated interface {
	RevisionAt(ctx context.Context, at time.Time) (Revision, error)
}

// Lineage is implemented by backends whose data may be replaced by an older copy of it. Holds
// returns ErrCompacted if rev belongs to what was lost: then nothing is known about the changes
// after it, although it is not below the compacted revision. It returns nil for a revision that the
// history has or that is still to come. Other errors are ErrClosed, the context's, or the medium's.
// Find it with [As].
type Lineage interface {
	Holds(ctx context.Context, rev Revision) error
}

// Backup is implemented by backends that can copy themselves while they are in use. BackupTo writes
// a copy to w and returns its revision. After an error, what was written is useless. The
// implementation says how the copy is restored. Find it with [As].
type Backup interface {
	BackupTo(ctx context.Context, w io.Writer) (Revision, error)
}

// Recoder is implemented by wrappers that store a value in one of several forms, for example encrypted
// with one of several keys. Outdated reports whether the record that a key had at a revision is stored
// in another form than a put would give it now. A caller whose value did not change puts it again then,
// so that it gets the new form. It is false if the key has no such record any more. Errors are those of
// Get. Find it with [As].
type Recoder interface {
	Outdated(ctx context.Context, key string, rev Revision) (bool, error)
}

// Placer is implemented by wrappers that give keys another place in the backend that they wrap, as
// [Prefix] does. Place returns the key there. Find it with [As].
type Placer interface {
	Place(key string) string
}

// Unwrapper is implemented by wrappers around a backend, so that [As] finds the optional interfaces
// of the wrapped one. A wrapper that changes what such an interface promises must implement it, too:
// one that copies or decodes values has a method Resident that returns false, or servers count on
// memory that they do not share.
type Unwrapper interface {
	Unwrap() Backend
}

// As finds the first backend in the chain of wrappers, starting with b itself, that implements the
// optional interface T, for example [Checker].
func As[T any](b Backend) (T, bool) {
	for b != nil {
		if t, ok := b.(T); ok {
			return t, true
		}
		w, ok := b.(Unwrapper)
		if !ok {
			break
		}
		b = w.Unwrap()
	}
	var none T
	return none, false
}
