package storage

import (
	"strings"
	"time"
)

// Record is one key with its value and the revision of the commit that wrote it.
//
// Value never changes after it was passed in or returned: a backend keeps the slice of a writer and
// returns the same slice to every reader. An empty value is a value; nil and empty are equivalent.
type Record struct {
	Key      string
	Value    []byte
	Revision Revision // of the last commit that put this key; never 0
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

// Change is the effect of one commit on one key.
type Change struct {
	Key      string
	Value    []byte   // empty when Deleted
	Deleted  bool     // the key ended with this change
	Revision Revision // of the commit
	Prev     *Record  // the previous record; nil if the change created the key
}

// Batch is one step of a watch: either all changes of one commit below the watched prefix, or
// progress.
//
// Changes is shared with other watchers: read it, never write to it. The order of changes within a
// batch is not specified. A key occurs once.
type Batch struct {
	Revision Revision  // of the commit; with Progress, the revision that the watch has reached
	Changes  []Change  // empty with Progress, never empty without
	Time     time.Time // when the commit was made, by the backend's clock; zero with Progress
	Progress bool      // every matching change at or below Revision has been delivered
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
