package watch

import (
	"io"
	"strconv"
	"time"
	"unsafe"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
)

// Body is the JSON of an object, cut where its resourceVersion belongs: inside metadata, before a member. The whole is
// Prefix + `"resourceVersion":"<revision>",` + Suffix. Neither part is changed by anyone once an entry holds it, so
// both may share memory with the stored record.
type Body struct{ Prefix, Suffix []byte }

// Facts are what reads need to know of an object without decoding it, extracted once. Slices are shared by all readers
// and never changed.
type Facts struct {
	Namespace string // "" for a cluster-scoped object
	Name      string
	UID       meta.UID
	Labels    meta.LabelSet
	Fields    []string   // values of the kind's declared fields, in the order of [Config].Fields
	Owners    []meta.UID // uids of the owner references
	Created   time.Time
	Deleted   *time.Time // the deletion timestamp; nil when the object is not being deleted
}

// Entry is one object at one revision, ready to be written to a client. It is immutable and shared by everyone: the
// index, snapshots, the log, all watchers and all lists hold the same entry. Make it with [NewEntry].
type Entry struct {
	key      string
	revision storage.Revision
	body     Body
	facts    Facts
	size     int

	// fields names the values of facts.Fields. The cache sets it before it shows the entry to anybody.
	fields []string

	// splice is `"resourceVersion":"<revision>",`, rendered once so that writing an entry allocates nothing.
	splice  [maxSplice]byte
	spliced uint8
}

const (
	spliceHead = `"resourceVersion":"`
	spliceTail = `",`
	maxSplice  = len(spliceHead) + 20 + len(spliceTail) // 20 digits hold every uint64
)

// NewEntry makes the live form of a record: its storage key, the revision that wrote it, its JSON and its facts. The
// entry keeps what it is given; the caller changes none of it afterwards.
func NewEntry(key string, revision storage.Revision, body Body, facts Facts) *Entry {
	e := &Entry{key: key, revision: revision, body: body, facts: facts}
	e.spliced = uint8(len(appendSplice(e.splice[:0], revision)))
	e.size = int(unsafe.Sizeof(*e)) + len(key) + len(body.Prefix) + len(body.Suffix)
	for _, l := range facts.Labels {
		e.size += int(unsafe.Sizeof(l)) + len(l.Key) + len(l.Value)
	}
	for _, v := range facts.Fields {
		e.size += int(unsafe.Sizeof(v)) + len(v)
	}
	for _, o := range facts.Owners {
		e.size += int(unsafe.Sizeof(o)) + len(o)
	}
	return e
}

func appendSplice(dst []byte, revision storage.Revision) []byte {
	dst = append(dst, spliceHead...)
	dst = strconv.AppendUint(dst, uint64(revision), 10)
	return append(dst, spliceTail...)
}

// Key returns the storage key.
func (e *Entry) Key() string { return e.key }

// Revision returns the revision of the commit that wrote this state.
func (e *Entry) Revision() storage.Revision { return e.revision }

// Body returns the JSON without its resourceVersion, in its two parts. They must not be changed.
func (e *Entry) Body() Body { return e.body }

// Facts returns what was extracted from the object. The slices in it must not be changed.
func (e *Entry) Facts() Facts { return e.facts }

// Size returns about how many bytes of memory the entry holds.
func (e *Entry) Size() int { return e.size }

// Length returns how many bytes AppendJSON appends.
func (e *Entry) Length() int { return len(e.body.Prefix) + int(e.spliced) + len(e.body.Suffix) }

// AppendJSON appends the object's JSON, with the entry's revision as resourceVersion.
func (e *Entry) AppendJSON(dst []byte) []byte {
	dst = append(dst, e.body.Prefix...)
	dst = append(dst, e.splice[:e.spliced]...)
	return append(dst, e.body.Suffix...)
}

// AppendJSONAt appends the object's JSON with another revision as resourceVersion: a DELETED event shows the last
// state with the revision of the deletion.
func (e *Entry) AppendJSONAt(dst []byte, revision storage.Revision) []byte {
	dst = append(dst, e.body.Prefix...)
	dst = appendSplice(dst, revision)
	return append(dst, e.body.Suffix...)
}

// WriteTo writes what AppendJSON appends, in three calls of w.Write and without allocating. It returns the number of
// bytes written and w's error.
func (e *Entry) WriteTo(w io.Writer) (int64, error) {
	total, err := w.Write(e.body.Prefix)
	if err != nil {
		return int64(total), err
	}
	n, err := w.Write(e.splice[:e.spliced])
	total += n
	if err != nil {
		return int64(total), err
	}
	n, err = w.Write(e.body.Suffix)
	return int64(total + n), err
}

var _ io.WriterTo = (*Entry)(nil)

// entryLabels and entryFields show an entry to selectors. They are the entry itself under another name, so a look
// costs no allocation.
type (
	entryLabels Entry
	entryFields Entry
)

var (
	_ meta.Labels = (*entryLabels)(nil)
	_ meta.Labels = (*entryFields)(nil)
)

// Get returns the value of a label.
func (e *entryLabels) Get(key string) (string, bool) { return e.facts.Labels.Get(key) }

// Get returns the value of a selectable field.
func (e *entryFields) Get(field string) (string, bool) {
	switch field {
	case fieldName:
		return e.facts.Name, true
	case fieldNamespace:
		return e.facts.Namespace, true
	}
	for i, name := range e.fields {
		if name == field {
			return e.facts.Fields[i], true
		}
	}
	return "", false
}
