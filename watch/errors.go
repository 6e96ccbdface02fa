package watch

import (
	"errors"
	"fmt"

	"github.com/kindwright/kindwright/storage"
)

// The errors with which cursors and waits end, besides storage.ErrCompacted and the context's
// error. Compare with errors.Is.
var (
	// ErrGone means that the kind was removed from the dispatcher.
	ErrGone = errors.New("watch: the kind is no longer served")
	// ErrEnded means that the dispatcher has ended, or that the cursor was closed.
	ErrEnded = errors.New("watch: the live view has ended")
)

// DecodeError reports a stored record that could not be decoded; see [Unreadable].
type DecodeError struct {
	StorageName string
	Key         string
	Revision    storage.Revision
	Err         error
}

// Error names the record but not its contents.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("watch: record %q of %s at revision %s cannot be decoded: %v", e.Key, e.StorageName, e.Revision, e.Err)
}

// Unwrap returns the error of CacheConfig.Decode.
func (e *DecodeError) Unwrap() error { return e.Err }

func errLost(storageName string) error {
	return fmt.Errorf("watch: %s was listed afresh, changes between are lost: %w", storageName, storage.ErrCompacted)
}
