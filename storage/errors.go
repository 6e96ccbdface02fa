package storage

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The facts that a storage call can end with. Compare them with errors.Is. The [Error] that Store
// returns adds operation, key and revision.
var (
	// ErrNotFound means that the key does not exist.
	ErrNotFound = errors.New("key not found")
	// ErrCompacted means that the revision is older than the retained history. List again and
	// continue from there.
	ErrCompacted = errors.New("revision has been compacted")
	// ErrFutureRevision means that the store has not reached the revision.
	ErrFutureRevision = errors.New("revision has not been reached yet")
	// ErrUnknownOutcome means that a commit may have happened, or may still happen soon. Read the
	// keys again before deciding; never just repeat the commit. The outcome is settled when a key of
	// the commit has another revision than the one expected of it.
	ErrUnknownOutcome = errors.New("outcome of the commit is unknown")
	// ErrUnavailable means that the store cannot be asked for now, for example because it lost its
	// leader. Nothing was committed and nothing will be. The same call may succeed later.
	ErrUnavailable = errors.New("store is unavailable")
	// ErrNoSpace is the ErrUnavailable of a store that has no room for a put. Reads, watches and
	// commits that free space (see [Op].Frees) go on, and so do puts when there is room again.
	ErrNoSpace = fmt.Errorf("%w: no space left", ErrUnavailable)
	// ErrUnreadable means that a record exists and its value cannot be read: it is damaged, or its
	// key of encryption is missing. See [Record].Err.
	ErrUnreadable = errors.New("record cannot be read")
	// ErrKeysAway is the ErrUnavailable of a record whose key of encryption is kept by a service that
	// is away. The record is probably sound, and can be read when the service is back.
	ErrKeysAway = fmt.Errorf("%w: a service that keeps keys of encryption is away", ErrUnavailable)
	// ErrClosed means that the store is closed, or refuses commits because it can no longer keep
	// its promises (see [Health]). Nothing was committed.
	ErrClosed = errors.New("store is closed")
	// ErrTooLarge means that a value or a commit exceeds the backend's [Limits].
	ErrTooLarge = errors.New("too large for the store")
	// ErrInvalid means that an argument breaks the rules of this package. It is a bug of the
	// caller; the call did not reach the backend.
	ErrInvalid = errors.New("invalid argument")
)

// ConflictError reports that a precondition of a commit did not hold; nothing was written. If
// several preconditions failed, it names the first in the order of the operations. Backends return
// it as *ConflictError; find it with errors.As.
type ConflictError struct {
	Key      string
	Expected Expect
	Actual   Revision // the revision that the key had; 0 means absent
}

// Error names the key, the expected and the actual revision.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("conflict on key %q: expected %v, found %v", e.Key, e.Expected, Expect(e.Actual))
}

// Error is the error type of [Store]. It names the call and its arguments, and wraps the underlying
// error for errors.Is and errors.As. An error is never wrapped in it twice.
type Error struct {
	Op       string   // "get", "list", "commit", "watch", "history", "revision", "sync", "compact", "close"
	Key      string   // the key or prefix; of a commit the conflicting or first key; may be empty
	Revision Revision // the revision the caller asked for; 0 when the call has none
	Err      error    // the fact; never nil
}

// Error returns a text such as `storage: list "/r/widgets/" at revision 17: revision has been
// compacted`.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("storage: ")
	b.WriteString(e.Op)
	if e.Key != "" {
		b.WriteByte(' ')
		b.WriteString(strconv.Quote(e.Key))
	}
	if e.Revision != 0 {
		b.WriteString(" at revision ")
		b.WriteString(e.Revision.String())
	}
	b.WriteString(": ")
	b.WriteString(e.Err.Error())
	return b.String()
}

// Unwrap returns the underlying error.
func (e *Error) Unwrap() error { return e.Err }
