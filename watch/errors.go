package watch

import (
	"errors"
	"fmt"

	"github.com/kindwright/kindwright/storage"
)

// How a cursor, or a wait, can end besides storage.ErrCompacted and its context. They are compared
// with errors.Is.
var (
	// ErrGone: the kind was removed from the dispatcher.
	ErrGone = errors.New("watch: the kind is no longer served")
	// ErrEnded: the dispatcher has ended, or the cursor was closed.
	ErrEnded = errors.New("watch: the live view has ended")
)

// DecodeError says that a stored record could not be made an entry. A kind with such a record is
// not ready: its cache stops at the last revision before it, see [Cache.Err].
type DecodeError struct {
	StorageName string
	Key         string
	Revision    storage.Revision
	Err         error
}

// Error names the record, never its contents.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("watch: record %q of %s at revision %s cannot be decoded: %v", e.Key, e.StorageName, e.Revision, e.Err)
}

// Unwrap is what Config.Decode returned.
func (e *DecodeError) Unwrap() error { return e.Err }

func errLost(storageName string) error {
	return fmt.Errorf("watch: %s was listed afresh, changes between are lost: %w", storageName, storage.ErrCompacted)
}
