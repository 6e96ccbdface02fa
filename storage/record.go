package storage

import (
	"strings"
	"time"
)

// Record is one key with its value and the revision of the change that wrote it.
//
// Value never changes after it was passed in or returned: a backend keeps the slice of a writer and
// returns the same slice to every reader. An empty value is a value; nil and empty are equivalent.
//
// One record that cannot be read does not hide the others. It has its key, its revision, no value,
// and the reason in Err, which wraps [ErrUnreadable]. It can be replaced and deleted.
type Record struct {
	Key      string
	Value    []byte
	Revision Revision // of the last change that put this key; never 0
	Err      error    // why the value cannot be read; nil if it can
}

// ListRequest asks for one page of the keys below a prefix, in byte order.
type ListRequest struct {
	Prefix string   // "" is everything; otherwise ends in "/"
	After  string   // the page begins with the first key greater than After; "" begins at the first key
	At     Revision // the revision to list; 0 is now
	Limit  int      // most records in the page; above 0
}

// Includes reports whether key lies below the prefix and after After.
func (r ListRequest) Includes(key string) bool {
	return strings.HasPrefix(key, r.Prefix) && key > r.After
}

// Page is the result of a [ListRequest].
//
// The slice Records belongs to the caller; the values in it are shared. A page with More set can
// hold fewer records than requested, because a backend may limit a page's bytes, but at least one.
// For the next page repeat the request with After set to the last key and At to Revision.
type Page struct {
	Records  []Record // ascending by key
	Revision Revision // the revision that was listed; never 0
	More     bool     // there are keys after the last one
}

// HistoryRequest asks for past changes of the keys below a prefix.
type HistoryRequest struct {
	Prefix string   // "" is everything; otherwise ends in "/"
	After  Revision // the page begins with the first change above it
	Until  Revision // changes above it are not read; 0 is the current revision
	Limit  int      // about how many changes a page has; above 0
	Prev   bool     // the changes have their previous records
}

// HistoryPage is the result of a [HistoryRequest].
//
// A page ends with a whole commit, so it may exceed the limit by the changes of one. For the next
// page repeat the request with After set to Revision.
type HistoryPage struct {
	Batches  []Batch  // in order; none is Progress
	Revision Revision // every matching change at or below it has been returned
	More     bool     // Revision has not reached Until
}

// Change is the effect of one commit on one key.
type Change struct {
	Key      string
	Value    []byte   // empty when Deleted
	Deleted  bool     // the key ended with this change
	Revision Revision // of this change
	Prev     *Record  // the previous record if History was asked for it; nil if the change created the key
	Err      error    // why the value cannot be read, as in a Record; nil if it can
}

// Batch is one step of a watch: either all changes of one commit below the watched prefix, or
// progress.
//
// Changes is shared with other watchers: read it, never write to it. The changes are in the order of
// their revisions, and those with the same revision in the order of their keys. A key occurs once.
type Batch struct {
	// Revision is the last one of the commit, also if another resource than the watched one has it.
	// With Progress it is the revision that the watch has reached.
	Revision Revision
	Changes  []Change // empty with Progress, never empty without
	// Time says when the commit was made, by the backend's clock. It is zero with Progress, and for
	// backends that do not know it.
	Time     time.Time
	Progress bool // every matching change at or below Revision has been delivered
}

// Above returns the batch with only the changes above a revision. It shares Changes with b.
func (b Batch) Above(rev Revision) Batch {
	for len(b.Changes) > 0 && b.Changes[0].Revision <= rev {
		b.Changes = b.Changes[1:]
	}
	return b
}

// Below returns the batch with only the changes to keys that begin with prefix. It shares Changes
// with b when that is all of them.
func (b Batch) Below(prefix string) Batch {
	n := 0
	for i := range b.Changes {
		if strings.HasPrefix(b.Changes[i].Key, prefix) {
			n++
		}
	}
	switch n {
	case 0:
		b.Changes = nil
		return b
	case len(b.Changes):
		return b
	}
	some := make([]Change, 0, n)
	for i := range b.Changes {
		if strings.HasPrefix(b.Changes[i].Key, prefix) {
			some = append(some, b.Changes[i])
		}
	}
	b.Changes = some
	return b
}
