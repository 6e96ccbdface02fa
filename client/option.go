package client

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
)

// Selection says which objects of a kind are meant. The zero value is all of them, in all
// namespaces.
type Selection struct {
	Namespace string // "" is all namespaces, and the only value for cluster-scoped kinds
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

// ReadOption says how new the answer of a read must be, and in what pieces it comes. Default: the
// newest state, which every write that was answered before is part of.
type ReadOption func(*read) error

// match is how a version is meant.
type match int

const (
	newest match = iota
	notOlderThan
	exact
)

// read is what ReadOptions add up to.
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

// NotOlderThan allows any state that is at least as new as a version that the server has issued:
// cheaper than the newest.
func NotOlderThan(version string) ReadOption {
	return func(r *read) error {
		if version == "" {
			return errors.New("client: NotOlderThan: the version is empty")
		}
		r.match, r.version = notOlderThan, version
		return nil
	}
}

// Exactly asks a list for the state at one version. Where the server no longer has it, the error is
// status.IsExpired.
func Exactly(version string) ReadOption {
	return func(r *read) error {
		if version == "" || version == "0" {
			return fmt.Errorf("client: Exactly: %q is not one version", version)
		}
		r.match, r.version = exact, version
		return nil
	}
}

// AnyState allows whatever is at hand, which may be older than what was seen before.
func AnyState() ReadOption {
	return func(r *read) error { r.match, r.version = notOlderThan, "0"; return nil }
}

// PageSize sets how many objects a list asks for at a time, in place of the client's WithPageSize.
func PageSize(n int) ReadOption {
	return func(r *read) error {
		if n < 0 {
			return fmt.Errorf("client: PageSize: %d is negative", n)
		}
		r.pageSize = n
		return nil
	}
}

// set writes the version into a query. Whoever sets one says how it is meant, although a server may
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

// WriteOption changes a Create, an Update, a Patch or a Modify.
type WriteOption interface{ write(*write) }

// DeleteOption changes a Delete or a DeleteCollection.
type DeleteOption interface{ delete(*meta.DeleteOptions) }

// write is what WriteOptions add up to.
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

// below is the path of the subresource, if there is one.
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

// DryRun has the server do everything but store the outcome.
func DryRun() interface {
	WriteOption
	DeleteOption
} {
	return dryRun{}
}

// FieldManager names who makes the change. Default: the client's User-Agent up to the first slash.
func FieldManager(name string) WriteOption {
	return writeFunc(func(w *write) { w.query.Set("fieldManager", name) })
}

// FieldValidation says what the server does about fields that it does not know:
// meta.FieldValidationIgnore, Warn or Strict. Default: Warn, which drops them.
func FieldValidation(mode string) WriteOption {
	return writeFunc(func(w *write) { w.query.Set("fieldValidation", mode) })
}

// Subresource writes through a subresource that has the form of the object, such as "status" or
// "finalize". For one that has a form of its own see Sub.
func Subresource(name string) WriteOption {
	return writeFunc(func(w *write) { w.subresource = name })
}

// IfUID deletes only this life of an object; another is status.IsConflict.
func IfUID(uid meta.UID) DeleteOption {
	return deleteFunc(func(o *meta.DeleteOptions) { preconditions(o).UID = &uid })
}

// IfVersion deletes only this state of an object; another is status.IsConflict.
func IfVersion(version string) DeleteOption {
	return deleteFunc(func(o *meta.DeleteOptions) { preconditions(o).ResourceVersion = &version })
}

// Propagate says what happens to the objects that the deleted one owns.
func Propagate(p meta.DeletionPropagation) DeleteOption {
	return deleteFunc(func(o *meta.DeleteOptions) { o.PropagationPolicy = &p })
}

// GracePeriod asks for seconds between the request and the end of the object, where the kind knows
// them.
func GracePeriod(seconds int64) DeleteOption {
	return deleteFunc(func(o *meta.DeleteOptions) { o.GracePeriodSeconds = &seconds })
}

func preconditions(o *meta.DeleteOptions) *meta.Preconditions {
	if o.Preconditions == nil {
		o.Preconditions = &meta.Preconditions{}
	}
	return o.Preconditions
}

// deleteBody is the body of a DELETE, nil where there is nothing to say.
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
