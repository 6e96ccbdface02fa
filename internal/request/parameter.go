package request

import (
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// The bounds of a query (security vector H7). Selectors may be long, so the size is generous; it is what net/http
// allows for all headers by default.
const (
	MaxQueryBytes = 1 << 20
	MaxParameters = 1000
)

// MaxTimeoutSeconds is the maximum of timeoutSeconds; larger values are reduced to it. It is 68
// years, which still fits a time.Duration.
const MaxTimeoutSeconds = 1<<31 - 1

// parseQuery reads a raw query. Unlike net/url it reports what it cannot read instead of dropping
// it: a pair with a semicolon, a bad escape, or bytes that are not UTF-8.
func parseQuery(raw string) (url.Values, error) {
	switch {
	case raw == "":
		return nil, nil
	case len(raw) > MaxQueryBytes:
		return nil, status.BadRequest("query is longer than %d bytes", MaxQueryBytes)
	case strings.Contains(raw, ";"):
		return nil, status.BadRequest("query contains a semicolon; separate parameters with &, and send %%3B for one in a value")
	case strings.Count(raw, "&") >= MaxParameters:
		return nil, status.BadRequest("query has more than %d parameters", MaxParameters)
	}
	values := make(url.Values)
	for pair := range strings.SplitSeq(raw, "&") {
		if pair == "" {
			continue // "a=1&" means "a=1"
		}
		name, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if err == nil {
			value, err = url.QueryUnescape(value)
		}
		if err != nil {
			return nil, status.BadRequest("query parameter %s has a bad escape", quote(pair))
		}
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return nil, status.BadRequest("query parameter %s is not UTF-8", quote(pair))
		}
		values[name] = append(values[name], value)
	}
	return values, nil
}

// verbs is a set of verbs, for the table below.
type verbs uint16

const (
	onGet verbs = 1 << iota
	onList
	onWatch
	onCreate
	onUpdate
	onPatch
	onDelete
	onDeleteCollection
	onOther  // requests for paths that are not resources
	onAction // creates through a subresource, beside onCreate

	onSelecting = onList | onWatch | onDeleteCollection
	onReading   = onGet | onList | onWatch
	onEditing   = onCreate | onUpdate | onPatch
	onDeleting  = onDelete | onDeleteCollection
	onWriting   = onEditing | onDeleting
	onResources = onReading | onWriting
)

func verbSet(i *Info) verbs {
	if !i.IsResource {
		return onOther
	}
	switch i.Verb {
	case VerbGet:
		return onGet
	case VerbList:
		return onList
	case VerbWatch:
		return onWatch
	case VerbCreate:
		return onCreate
	case VerbUpdate:
		return onUpdate
	case VerbPatch:
		return onPatch
	case VerbDelete:
		return onDelete
	}
	return onDeleteCollection
}

// parameter describes one parameter: where it applies and how its value is read.
type parameter struct {
	name string
	on   verbs
	read func(q *Query, value string) error
}

// parameters is the table of section QUERY of the requirements. Two parameters are read elsewhere:
// "watch" before the table, because it decides the verb, and dryRun beside it, because it may
// repeat. OpenAPI documents have a list of their own, in openapi/parameter.go.
var parameters = [...]parameter{
	{"resourceVersion", onGet | onWatch, readResourceVersion},
	{"resourceVersion", onList | onDeleteCollection, text(func(q *Query) *string { return &q.ResourceVersion })}, // see ValidateList
	{"resourceVersionMatch", onSelecting, text(func(q *Query) *string { return &q.ResourceVersionMatch })},
	{"allowWatchBookmarks", onWatch, func(q *Query, v string) error { q.AllowWatchBookmarks = Boolean(v); return nil }},
	{"sendInitialEvents", onList | onWatch, flag(func(q *Query) **bool { return &q.SendInitialEvents })},
	{"limit", onSelecting, readLimit},
	{"continue", onSelecting, text(func(q *Query) *string { return &q.Continue })},
	{"labelSelector", onSelecting, readLabelSelector},
	{"fieldSelector", onSelecting, readFieldSelector},
	{"timeoutSeconds", onSelecting, readTimeoutSeconds},
	{"timeout", onResources&^onWatch | onOther, readTimeout},
	{"pretty", onResources | onOther, flag(func(q *Query) **bool { return &q.Pretty })},
	{"fieldManager", onEditing, text(func(q *Query) *string { return &q.FieldManager })},
	{"fieldValidation", onEditing, text(func(q *Query) *string { return &q.FieldValidation })},
	{"force", onPatch, decision("force", func(q *Query) **bool { return &q.Force })},
	{"gracePeriodSeconds", onDeleting, readGracePeriod},
	{"propagationPolicy", onDeleting, text(func(q *Query) *string { return &q.PropagationPolicy })},
	{"orphanDependents", onDeleting, decision("orphanDependents", func(q *Query) **bool { return &q.OrphanDependents })},
	{ignoreReadErrors, onDeleting, decision(ignoreReadErrors, func(q *Query) **bool { return &q.IgnoreReadErrors })},
	{"uid", onDeleting, text(func(q *Query) *string { return &q.PreconditionUID })},
	{"includeObject", onReading, readIncludeObject},
	{"export", onResources, readExport},
}

// ignoreReadErrors deletes an object that cannot be read (KEP-3926).
const ignoreReadErrors = "ignoreStoreReadErrorWithClusterBreakingPotential"

// read sets the parameters that apply to the verb.
func (q *Query) read(i *Info) error {
	if len(q.Raw) == 0 || i.Below != "" { // below a subresource the parameters belong to its handler
		return nil
	}
	on := verbSet(i)
	for _, p := range parameters {
		if p.on&on == 0 {
			continue
		}
		value, err := Single(q.Raw, p.name)
		if err != nil {
			return err
		}
		if value == nil {
			continue
		}
		if err := p.read(q, *value); err != nil {
			return err
		}
	}
	if on&onWriting != 0 {
		q.DryRun = q.Raw["dryRun"]
	}
	return nil
}

// Single returns the value of a parameter that has one, or nil when it is absent. Repeating the
// same value is allowed. Two different values are an error.
func Single(raw url.Values, name string) (*string, error) {
	values := raw[name]
	if len(values) == 0 {
		return nil, nil
	}
	for _, v := range values[1:] {
		if v != values[0] {
			return nil, status.BadRequest("query parameter %q is given with different values", name)
		}
	}
	return &values[0], nil
}

// Boolean reads a value of a read by QUERY-18: every value but "0" and "false" is true, including the
// empty one of "?watch". So no such boolean is invalid, and only two different values for one are a
// 400.
func Boolean(v string) bool { return v != "0" && !strings.EqualFold(v, "false") }

func text(field func(*Query) *string) func(*Query, string) error {
	return func(q *Query, v string) error {
		*field(q) = v
		return nil
	}
}

func flag(field func(*Query) **bool) func(*Query, string) error {
	return func(q *Query, v string) error {
		b := Boolean(v)
		*field(q) = &b
		return nil
	}
}

// Flag reads a boolean that decides what is done: an option of a connection, such as one that turns a
// check off. Unlike [Boolean] it accepts no other words than true, false, 1 and 0, and nothing for
// true. The error names the parameter.
//
// Source: S11, S27.
func Flag(name, v string) (bool, error) {
	switch {
	case v == "" || v == "1" || strings.EqualFold(v, "true"):
		return true, nil
	case v == "0" || strings.EqualFold(v, "false"):
		return false, nil
	}
	return false, status.BadRequest("query parameter %q: %s is neither true nor false", name, quote(v))
}

// decision reads a boolean of a write. A lost value does not count as true: "force=$FORCE" must not
// take fields over from others.
func decision(name string, field func(*Query) **bool) func(*Query, string) error {
	return func(q *Query, v string) error {
		b, err := Flag(name, v)
		if err == nil && v == "" {
			err = status.BadRequest("query parameter %q: %s is neither true nor false", name, quote(v))
		}
		*field(q) = &b
		return err
	}
}

// PrettyParameter returns the parameter pretty of a raw query. It returns nil when the parameter is
// absent or the query cannot be read. It is for answers to requests that could not be parsed; other
// code reads [Query.Pretty].
func PrettyParameter(raw string) *bool {
	values, err := parseQuery(raw)
	if err != nil {
		return nil
	}
	value, err := Single(values, "pretty")
	if err != nil || value == nil {
		return nil
	}
	pretty := Boolean(*value)
	return &pretty
}

// Integer reads a decimal number in its canonical form: no plus sign, no leading zeros, no blanks
// (security vector W4). The error names the parameter.
func Integer(name, v string) (int64, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != v {
		return 0, status.BadRequest("query parameter %q: %s is not a decimal integer of 64 bits", name, quote(v))
	}
	return n, nil
}

func readResourceVersion(q *Query, v string) error {
	q.ResourceVersion = v
	return q.checkResourceVersion()
}

// checkResourceVersion accepts the canonical form alone, because some clients compare versions as
// text (security vector W1).
func (q Query) checkResourceVersion() error {
	v := q.ResourceVersion
	if v == "" {
		return nil
	}
	if n, err := strconv.ParseUint(v, 10, 64); err != nil || strconv.FormatUint(n, 10) != v {
		return status.BadRequest("invalid resource version: resourceVersion: Invalid value: %s: must be a decimal number", quote(v))
	}
	return nil
}

func readLimit(q *Query, v string) error {
	n, err := Integer("limit", v)
	if err != nil {
		return err
	}
	q.Limit = max(n, 0) // PAGE-10
	return nil
}

func readLabelSelector(q *Query, v string) (err error) {
	if q.LabelSelector, err = meta.ParseSelector(v); err != nil {
		return status.BadRequest("%s", err)
	}
	return nil
}

func readFieldSelector(q *Query, v string) (err error) {
	if q.FieldSelector, err = meta.ParseFieldSelector(v); err != nil {
		return status.BadRequest("%s", err)
	}
	return nil
}

func readTimeoutSeconds(q *Query, v string) error {
	n, err := Integer("timeoutSeconds", v)
	switch {
	case err != nil:
		return err
	case n < 0:
		return status.BadRequest("query parameter \"timeoutSeconds\" must not be negative")
	case n > 0:
		n = min(n, MaxTimeoutSeconds)
		q.TimeoutSeconds = &n
	}
	return nil
}

func readTimeout(q *Query, v string) error {
	if v == "" {
		return nil // clients without a time-out send the parameter empty
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		return status.BadRequest("invalid timeout specified in the request URL: %s is not a duration such as 30s", quote(v))
	}
	q.Timeout = d
	return nil
}

// readExport ignores a client that does not ask for what Kubernetes has removed.
func readExport(_ *Query, v string) error {
	if !Boolean(v) {
		return nil
	}
	return status.BadRequest("the export parameter, deprecated since v1.14, is no longer supported")
}

func readGracePeriod(q *Query, v string) error {
	n, err := Integer("gracePeriodSeconds", v)
	if err != nil {
		return err
	}
	q.GracePeriodSeconds = &n
	return nil
}

// readIncludeObject reads what only a Table is asked about: see [Query.ValidateTable].
func readIncludeObject(q *Query, v string) error {
	q.IncludeObject = v
	return nil
}
