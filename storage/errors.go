package storage

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The facts a storage call can end with. They are compared with errors.Is; the
// [Error] that Store returns carries operation, key and revision around them.
var (
	// ErrNotFound: Get found no such key.
	ErrNotFound = errors.New("key not found")
	// ErrCompacted: the revision asked for is older than what the store keeps.
	// List afresh and go on from there.
	ErrCompacted = errors.New("revision has been compacted")
	// ErrFutureRevision: the store has not reached the revision asked for.
	ErrFutureRevision = errors.New("revision has not been reached yet")
	// ErrUnknownOutcome: a commit may or may not have happened, now or a little
	// later. Read the keys again before deciding; never just repeat it.
	ErrUnknownOutcome = errors.New("outcome of the commit is unknown")
	// ErrClosed: the store is closed, or closed itself because it can no longer
	// keep its promises (see [Health]). Nothing was committed.
	ErrClosed = errors.New("store is closed")
	// ErrTooLarge: a value or a commit exceeds the backend's [Limits].
	ErrTooLarge = errors.New("too large for the store")
	// ErrInvalid: an argument breaks the rules of this package. It is a mistake
	// of the caller; nothing reached the backend.
	ErrInvalid = errors.New("invalid argument")
)

// ConflictError says that a precondition of a commit did not hold; nothing was
// written. Of several failing preconditions it names the first in the order of
// the operations. Backends return it as *ConflictError; find it with errors.As.
type ConflictError struct {
	Key      string
	Expected Expect
	Actual   Revision // what the key had when the commit was refused; 0 is absent
}

// Error names the key, what was expected and what was found.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("conflict on key %q: expected %v, found %v", e.Key, e.Expected, Expect(e.Actual))
}

// Error is what [Store] returns: the call, what it was about, and the fact
// beneath, which errors.Is and errors.As reach. No error is wrapped in it twice.
type Error struct {
	Op       string   // "get", "list", "commit", "watch", "revision", "compact", "close"
	Key      string   // the key or prefix; of a commit the conflicting or first key; may be empty
	Revision Revision // the revision the caller asked for; 0 when the call has none
	Err      error    // the fact; never nil
}

// Error reads like `storage: list "/r/widgets/" at revision 17: revision has been compacted`.
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

// Unwrap is the fact.
func (e *Error) Unwrap() error { return e.Err }
