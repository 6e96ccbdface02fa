package registry

import (
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/watch"
)

// Result is the outcome of a write.
type Result struct {
	Entry   *watch.Entry // the object as it is stored now; in a dry run, as it would be; after a removal, as it was last
	Created bool         // the object did not exist before
	Removed bool         // the object is gone

	// Document is set instead of Entry where there is nothing in the store that could have a version: the answer of a
	// virtual resource, and the new object of a dry run.
	Document []byte

	// Kind is that of a Document which is not of the resource's own kind: the answer of a subresource.
	Kind meta.GroupVersionKind
}
