package watch

import (
	"errors"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
)

// Expired reports whether an error means that a watch cannot continue from its version, because that is
// no longer retained. The watcher then has to list again.
func Expired(err error) bool {
	return errors.Is(err, storage.ErrCompacted) || status.ReasonOf(err) == meta.ReasonExpired
}
