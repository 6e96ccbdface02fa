package registry

import (
	"iter"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// List is a collection at one version.
type List struct {
	Revision  storage.Revision
	Continue  string // token of the next chunk, "" when this is the last
	Remaining *int64 // how many objects follow this chunk; nil when unknown or none (COLL-08 to COLL-10)

	// Items are the objects, ordered by namespace and name. An error ends the walk: the state that
	// is walked over may be compacted meanwhile.
	// Source: COLL-15.
	Items iter.Seq2[*watch.Entry, error]
}
