package client

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
)

// Selection selects objects of a kind. The zero value selects all of them, in all namespaces.
type Selection struct {
	Namespace string // "" is all namespaces; always "" for cluster-scoped kinds
	Labels    meta.Selector
	Fields    meta.FieldSelector
}

// In selects the objects of one namespace.
func In(namespace string) Selection { return Selection{Namespace: namespace} }

func (s Selection) query() url.Values {
	q := url.Values{}
	if !s.Labels.Empty() {
		q.Set("labelSelector", s.Labels.String())
	}
	if !s.Fields.Empty() {
		q.Set("fieldSelector", s.Fields.String())
	}
	return q
}

// ReadOption sets how recent the result of a read must be, and the page size of a list. By default
// a read returns the newest state, which includes every completed write.
type ReadOption func(*read) error

// match is the resourceVersionMatch of a read.
type match int

const (
	newest match = iota
	notOlderThan
	exact
)

// read is the result of ReadOptions.
type read struct {
	match    match
	version  string
	pageSize int
}

func newRead(pageSize int, opts []ReadOption) (read, error) {
	r := read{pageSize: pageSize}
	var problems []error
	for _, o := range opts {
		if o != nil {
			problems = append(problems, o(&r))
		}
	}
	return r, errors.Join(problems...)
}

// NotOlderThan allows any state that is at least as new as version. This is cheaper than reading
// the newest.
func NotOlderThan(version string) ReadOption {
	return func(r *read) error {
		if version == "" {
			return errors.New("client: NotOlderThan: the version must not be empty")
		}
		r.match, r.version = notOlderThan, version
		return nil
	}
}

// Exactly requests the state at one version, for lists only. If the server no longer has it, the
// error satisfies status.IsExpired.
func Exactly(version string) ReadOption {
	return func(r *read) error {
		if version == "" || version == "0" {
			return fmt.Errorf("client: Exactly: %q is not a specific version", version)
		}
		r.match, r.version = exact, version
		return nil
	}
}

// AnyState allows any state that the server has at hand. It may be older than one seen before.
func AnyState() ReadOption {
	return func(r *read) error { r.match, r.version = notOlderThan, "0"; return nil }
}

// PageSize overrides WithPageSize for one list.
func PageSize(n int) ReadOption {
	return func(r *read) error {
		if n < 0 {
			return fmt.Errorf("client: PageSize: %d is negative", n)
		}
		r.pageSize = n
		return nil
	}
}

// set adds the version to a query. It always adds resourceVersionMatch too, although a server may
// not know the parameter (LIST-24).
func (r read) set(q url.Values) {
	switch r.match {
	case notOlderThan:
		q.Set("resourceVersion", r.version)
		q.Set("resourceVersionMatch", string(meta.ResourceVersionMatchNotOlderThan))
	case exact:
		q.Set("resourceVersion", r.version)
		q.Set("resourceVersionMatch", string(meta.ResourceVersionMatchExact))
	}
}

func (r read) setLimit(q url.Values) {
	if r.pageSize > 0 {
		q.Set("limit", strconv.Itoa(r.pageSize))
	}
}

// WriteOption configures a Create, Update, Patch or Modify.
type WriteOption interface{ write(*write) }

// DeleteOption configures a Delete or a DeleteCollection.
type DeleteOption interface{ delete(*meta.DeleteOptions) }

// ChangeOption configures whatever changes objects: writes and deletions.
type ChangeOption interface {
	WriteOption
	DeleteOption
}

// write is the result of WriteOptions.
type write struct {
	query       url.Values
	subresource string
}

func newWrite(opts []WriteOption) write {
	w := write{query: url.Values{}}
	for _, o := range opts {
		if o != nil {
			o.write(&w)
		}
	}
	return w
}

// below returns the path of the subresource, if one is set.
func (w write) below(path []string) []string {
	if w.subresource == "" {
		return path
	}
	return append(path[:len(path):len(path)], w.subresource)
}

type writeFunc func(*write)

func (f writeFunc) write(w *write) { f(w) }

type deleteFunc func(*meta.DeleteOptions)

func (f deleteFunc) delete(o *meta.DeleteOptions) { f(o) }

type dryRun struct{}

func (dryRun) write(w *write)               { w.query.Set("dryRun", meta.DryRunAll) }
func (dryRun) delete(o *meta.DeleteOptions) { o.DryRun = []string{meta.DryRunAll} }

// DryRun makes the server do everything except store the result.
func DryRun() ChangeOption { return dryRun{} }

// FieldManager sets the name of the field manager. Default: the client's User-Agent up to the first
// slash.
func FieldManager(name string) WriteOption {
	return writeFunc(func(w *write) { w.query.Set("fieldManager", name) })
}

// FieldValidation sets how the server treats fields that it does not know:
// meta.FieldValidationIgnore, Warn or Strict. Default: Warn, which drops them with a warning.
func FieldValidation(mode string) WriteOption {
	return writeFunc(func(w *write) { w.query.Set("fieldValidation", mode) })
}

// Subresource writes through a subresource that has the type of the object, such as "status" or
// "finalize". For one with its own type use Sub.
func Subresource(name string) WriteOption {
	return writeFunc(func(w *write) { w.subresource = name })
}

// IfUID deletes an object only if it has this UID. Otherwise the error satisfies status.IsConflict.
func IfUID(uid meta.UID) DeleteOption {
	return deleteFunc(func(o *meta.DeleteOptions) { preconditions(o).UID = &uid })
}

// IfVersion deletes an object only if it has this version. Otherwise the error satisfies
// status.IsConflict.
func IfVersion(version string) DeleteOption {
	return deleteFunc(func(o *meta.DeleteOptions) { preconditions(o).ResourceVersion = &version })
}

// Propagate sets what happens to the objects that the deleted one owns.
func Propagate(p meta.DeletionPropagation) DeleteOption {
	return deleteFunc(func(o *meta.DeleteOptions) { o.PropagationPolicy = &p })
}

// GracePeriod sets the seconds between the request and the end of the object, for kinds that
// support it.
func GracePeriod(seconds int64) DeleteOption {
	return deleteFunc(func(o *meta.DeleteOptions) { o.GracePeriodSeconds = &seconds })
}

func preconditions(o *meta.DeleteOptions) *meta.Preconditions {
	if o.Preconditions == nil {
		o.Preconditions = &meta.Preconditions{}
	}
	return o.Preconditions
}

// deleteBody returns the body of a DELETE, or nil without options.
func deleteBody(opts []DeleteOption) ([]byte, error) {
	if len(opts) == 0 {
		return nil, nil
	}
	o := meta.DeleteOptions{TypeMeta: meta.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"}}
	for _, option := range opts {
		if option != nil {
			option.delete(&o)
		}
	}
	return json.Marshal(o)
}
