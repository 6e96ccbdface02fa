package registry

import (
	"context"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
)

// Target is what a call acts on.
type Target struct {
	Resource    meta.GroupVersionResource
	Subresource string // empty for the object itself
	Namespace   string // empty for cluster-scoped kinds, and for lists and watches over all namespaces
	Name        string // empty for collections and for creation
}

// WriteOptions are the options that creates, updates and patches share.
type WriteOptions struct {
	DryRun       bool   // everything runs, nothing is stored (DRY-01)
	FieldManager string // who writes, for the managed fields; "" is the DefaultManager
	Force        bool   // apply: take over the fields of other managers (SSA-04)

	// DefaultManager is who writes if FieldManager is empty; "" counts as "unknown". Plugins are not
	// told of it: the client did not say it.
	DefaultManager string

	// FieldValidation says what happens to fields that the schema does not know and to fields given
	// twice: meta.FieldValidationIgnore, Warn or Strict. "" means Warn.
	// Source: QUERY-23.
	FieldValidation string

	// MayCreate, if not nil, is asked before an update or an apply creates an object that is
	// absent. Its error refuses that.
	// Source: UPDATE-10.
	MayCreate func(context.Context) error

	// Repeated returns in the words of YAML which names a body repeats that was sent as YAML, and on
	// which lines. Optional; it is called for bodies that do.
	Repeated func() []string
}

// PatchRequest is the body of a patch and what kind it is.
type PatchRequest struct {
	Type meta.PatchType
	Body []byte
}

// ListRequest selects objects and the version at which they are read (area LIST).
type ListRequest struct {
	Labels meta.Selector
	Fields meta.FieldSelector
	Shards *meta.Shards // nil: all

	// Match says how Version is meant. "" reads the newest state, whatever Version is.
	Match   meta.ResourceVersionMatch
	Version storage.Revision

	AnyState bool // resourceVersion=0: whatever is at hand

	// MetadataOnly says that the caller uses metadata alone: the objects may come in any form, and no conversion runs.
	MetadataOnly bool

	Limit    int64  // at most so many objects; 0 or less means all
	Continue string // the token of the chunk before
}

// WatchRequest selects changes.
type WatchRequest struct {
	Labels meta.Selector
	Fields meta.FieldSelector
	Shards *meta.Shards // nil: all

	// After starts with the changes after this version. 0 starts with the objects that exist, as ADDED events.
	After storage.Revision

	// Initial starts with the objects that exist although After is given: they are then at least as
	// new as After. AnyState lets the objects that exist be whatever is at hand.
	// Source: WLIST-05, WATCH-07.
	Initial, AnyState bool

	// SkipInitial starts with the changes from now on, when After is 0.
	// Source: WLIST-07.
	SkipInitial bool
}
