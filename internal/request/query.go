package request

import (
	"cmp"
	"net/url"
	"time"

	"github.com/kindwright/kindwright/meta"
)

// Query holds the query parameters that apply to the verb of the request. All others have their
// zero value, even if the client sent them. Pretty and Raw are set for every request.
//
// The parser checks each value by itself. The Validate methods check combinations and enumerations;
// a handler calls them after authorization and before it acts.
type Query struct {
	// Watch asks for a stream of changes; it makes the verb watch (QUERY-01).
	Watch bool

	// AllowWatchBookmarks asks for bookmarks; watch only (QUERY-04).
	AllowWatchBookmarks bool

	// SendInitialEvents is nil when absent; list and watch (QUERY-05).
	SendInitialEvents *bool

	// ResourceVersion is "" or a canonical decimal number that fits 64 bits; get, list, watch and
	// deletecollection (QUERY-02). Those of list and deletecollection are as sent until
	// [Query.ValidateList] has checked them.
	ResourceVersion string

	// ResourceVersionMatch is as sent; list, watch and deletecollection. The Validate methods
	// reject unknown values (QUERY-03).
	ResourceVersionMatch string

	// Limit is the maximum number of items of a page; list and deletecollection. 0 means no limit;
	// a negative limit is read as 0 (PAGE-10).
	Limit int64

	// Continue is the opaque token from the previous page; list and deletecollection (QUERY-07).
	Continue string

	// LabelSelector and FieldSelector filter list, watch and deletecollection; their zero values
	// select everything (QUERY-08, QUERY-09).
	LabelSelector meta.Selector
	FieldSelector meta.FieldSelector

	// TimeoutSeconds bounds list, watch and deletecollection (QUERY-10). It is nil when absent or
	// 0, which both mean the server's default. It is never above [MaxTimeoutSeconds].
	TimeoutSeconds *int64

	// Timeout shortens the deadline of every request but a watch (QUERY-22); 0 means the server's default.
	Timeout time.Duration

	// Pretty is nil when absent; see [Info.Pretty].
	Pretty *bool

	// DryRun is as sent; the verbs that write (QUERY-12). See [Query.IsDryRun].
	DryRun []string

	// FieldManager and FieldValidation are as sent; create, update and patch (QUERY-13, QUERY-14).
	FieldManager, FieldValidation string

	// Force is nil when absent; patch (QUERY-15).
	Force *bool

	// GracePeriodSeconds is nil when absent; delete and deletecollection (QUERY-16). It may be negative (DEL-13).
	GracePeriodSeconds *int64

	// PropagationPolicy is as sent; delete and deletecollection (QUERY-17).
	PropagationPolicy string

	// OrphanDependents is the deprecated form of PropagationPolicy; nil when absent (DEL-12).
	OrphanDependents *bool

	// IgnoreReadErrors asks for the deletion of an object that cannot be read; nil when absent.
	IgnoreReadErrors *bool

	// PreconditionUID is the parameter uid of delete and deletecollection: an object with another
	// uid is not deleted.
	PreconditionUID string

	// IncludeObject is "", "None", "Metadata" or "Object" once [Query.ValidateTable] has approved it; get, list
	// and watch of Tables (TABLE-08).
	IncludeObject string

	// Raw holds every parameter as sent, for handlers of subresources that define further ones. It
	// is nil for an empty query.
	Raw url.Values

	// groupDomain names the group of the options' kinds in validation errors.
	groupDomain string
}

// GroupDomain is the domain of the server's own API groups.
func (q Query) GroupDomain() string { return cmp.Or(q.groupDomain, DefaultGroupDomain) }
