package watch

import (
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
)

// Body is the JSON of an object, cut where its resourceVersion belongs: inside metadata, before a
// member. The whole is Prefix + `"resourceVersion":"<revision>",` + Suffix.
type Body struct {
	Prefix, Suffix []byte
	Managed        Managed
}

// Managed is the place of metadata.managedFields in the prefix of a body: Prefix[From:To] is the
// member with the comma after it. Zero when there is none.
type Managed struct {
	From, To int
	// Times are the offsets of the times in it, ascending, each as long as a time stamp of RFC 3339
	// in UTC to the second. All else is what objects have in common that the same managers wrote.
	Times []int
}

// Facts are what reads need to know of an object without decoding it, extracted once. Slices are
// shared by all readers and never changed.
type Facts struct {
	Namespace string // "" for a cluster-scoped object
	Name      string
	UID       meta.UID
	Labels    meta.LabelSet
	Fields    []string   // values of the kind's declared fields, in the order of [Config].Fields
	Owners    []meta.UID // uids of the owner references
	Created   time.Time  // UTC, to the second
	Deleted   *time.Time // the deletion timestamp; nil when the object is not being deleted
}

// Entry is one object at one revision, ready to be written to a client. It is immutable and shared
// by everyone: the index, snapshots, the log, all watchers and all lists hold the same entry. Make
// it with [NewEntry] or [Texts.NewEntry].
//
// There are as many entries as objects, so that every byte in one counts.
type Entry struct {
	key            string
	revision       storage.Revision
	prefix, suffix string

	// shared is what was taken out of the prefix: the nth text belongs at offset managed.from +
	// n*stampBytes. What stands between two of them in the prefix is a time.
	shared  []*text
	managed managed

	name, namespace string
	uid             meta.UID
	labels          meta.LabelSet
	created         int64     // Unix seconds; those of the zero time for none
	rare            *rare     // nil for most objects
	fields          *[]string // the names of rare.fields; the cache sets it before it shows the entry to anybody
	size            uint32

	// splice is `"resourceVersion":"<revision>",`, rendered once so that writing an entry allocates
	// nothing.
	spliced uint8
	splice  [maxSplice]byte
}

// managed is where the managed fields lie in what is left of the prefix; both are 0 where there are
// none.
type managed struct{ from, to uint32 }

// rare is what most objects do not have.
type rare struct {
	fields  []string
	owners  []meta.UID
	deleted *time.Time
}

const (
	spliceHead = `"resourceVersion":"`
	spliceTail = `",`
	maxSplice  = len(spliceHead) + 20 + len(spliceTail) // 20 digits hold every uint64

	stampBytes = len("2006-01-02T15:04:05Z")
)

// NewEntry makes the live form of a record: its storage key, the revision that wrote it, its JSON
// and its facts. The entry keeps what it is given; the caller changes none of it afterwards. It is
// the right one for records that something else holds in memory as well.
func NewEntry(key string, revision storage.Revision, body Body, facts Facts) *Entry {
	e := newEntry(key, revision, facts)
	e.prefix, e.suffix = view(body.Prefix), view(body.Suffix)
	e.name, e.namespace, e.uid, e.labels = facts.Name, facts.Namespace, facts.UID, facts.Labels
	e.managed = managed{uint32(body.Managed.From), uint32(body.Managed.To)}
	e.count()
	return e
}

// newEntry makes an entry without what can share memory with its body.
func newEntry(key string, revision storage.Revision, facts Facts) *Entry {
	e := &Entry{key: key, revision: revision, created: facts.Created.Unix()}
	e.spliced = uint8(len(appendSplice(e.splice[:0], revision)))
	if facts.Fields != nil || facts.Owners != nil || facts.Deleted != nil {
		e.rare = &rare{fields: facts.Fields, owners: facts.Owners, deleted: facts.Deleted}
	}
	return e
}

// count works out the size. What is shared is counted as if it were not: nobody knows with how
// many.
func (e *Entry) count() {
	size := int(unsafe.Sizeof(*e)) + len(e.key) + len(e.prefix) + len(e.suffix)
	for _, t := range e.shared {
		size += int(unsafe.Sizeof(t)) + len(t.text)
	}
	size += len(e.labels) * int(unsafe.Sizeof(meta.Label{}))
	if e.rare != nil {
		size += int(unsafe.Sizeof(*e.rare))
		for _, v := range e.rare.fields {
			size += int(unsafe.Sizeof(v)) + len(v)
		}
		for _, o := range e.rare.owners {
			size += int(unsafe.Sizeof(o)) + len(o)
		}
	}
	e.size = uint32(min(size, math.MaxUint32))
}

// view is bytes that nobody changes any more, as text.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// bytesOf is text as bytes, for an io.Writer, which must not change them.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

func appendSplice(dst []byte, revision storage.Revision) []byte {
	dst = append(dst, spliceHead...)
	dst = strconv.AppendUint(dst, uint64(revision), 10)
	return append(dst, spliceTail...)
}

// Key returns the storage key.
func (e *Entry) Key() string { return e.key }

// Revision returns the revision of the commit that wrote this state.
func (e *Entry) Revision() storage.Revision { return e.revision }

// Body returns the JSON without its resourceVersion, as the entry was made of it but for
// Managed.Times, which are not kept. It must not be changed. Where the entry shares texts with
// others the prefix is a copy.
func (e *Entry) Body() Body {
	b := Body{Prefix: bytesOf(e.prefix), Suffix: bytesOf(e.suffix)}
	b.Managed.From, b.Managed.To = int(e.managed.from), int(e.managed.to)
	if len(e.shared) > 0 {
		b.Prefix = e.appendPrefix(make([]byte, 0, e.bare()-len(e.suffix)))
		b.Managed.To += len(b.Prefix) - len(e.prefix)
	}
	return b
}

// Facts returns what was extracted from the object. The slices in it must not be changed. Its texts
// may be parts of the object's JSON and keep all of that in memory: who keeps one for longer than
// the entry should copy it.
func (e *Entry) Facts() Facts {
	f := Facts{Namespace: e.namespace, Name: e.name, UID: e.uid, Labels: e.labels, Created: time.Unix(e.created, 0).UTC()}
	if r := e.rare; r != nil {
		f.Fields, f.Owners, f.Deleted = r.fields, r.owners, r.deleted
	}
	return f
}

// UID returns the uid of the object.
func (e *Entry) UID() meta.UID { return e.uid }

// Owners returns the uids of the owner references. They must not be changed.
func (e *Entry) Owners() []meta.UID {
	if e.rare == nil {
		return nil
	}
	return e.rare.owners
}

// SameOwners tells whether the object refers to the owners that another one, or an earlier state of
// it, refers to, and in the same words.
func (e *Entry) SameOwners(other *Entry) bool {
	return slices.Equal(e.Owners(), other.Owners()) && (len(e.Owners()) == 0 || e.references() == other.references())
}

// references is the JSON of the owner references of an object that has some. The members of
// metadata are sorted, so they are the last before the version; a quotation mark within a text has
// a backslash before it.
func (e *Entry) references() string {
	return e.prefix[max(strings.LastIndex(e.prefix, `"ownerReferences":`), 0):]
}

// Deleting tells whether the object has a deletion timestamp.
func (e *Entry) Deleting() bool { return e.rare != nil && e.rare.deleted != nil }

// values are those of the kind's declared fields.
func (e *Entry) values() []string {
	if e.rare == nil {
		return nil
	}
	return e.rare.fields
}

// Size returns about how many bytes of memory the entry holds.
func (e *Entry) Size() int { return int(e.size) }

// Length returns how many bytes AppendJSON appends.
func (e *Entry) Length() int { return e.bare() + int(e.spliced) }

// bare is the length of the JSON without its resourceVersion.
func (e *Entry) bare() int {
	n := len(e.prefix) + len(e.suffix)
	for _, t := range e.shared {
		n += len(t.text)
	}
	return n
}

// AppendJSON appends the object's JSON, with the entry's revision as resourceVersion.
func (e *Entry) AppendJSON(dst []byte) []byte {
	dst = e.appendPrefix(dst)
	dst = append(dst, e.splice[:e.spliced]...)
	return append(dst, e.suffix...)
}

// AppendJSONAt appends the object's JSON with another revision as resourceVersion: a DELETED event
// shows the last state with the revision of the deletion.
func (e *Entry) AppendJSONAt(dst []byte, revision storage.Revision) []byte {
	dst = e.appendPrefix(dst)
	dst = appendSplice(dst, revision)
	return append(dst, e.suffix...)
}

// AppendUnmanaged appends what AppendJSONAt does, without metadata.managedFields.
func (e *Entry) AppendUnmanaged(dst []byte, revision storage.Revision) []byte {
	dst = append(dst, e.prefix[:e.managed.from]...)
	dst = append(dst, e.prefix[e.managed.to:]...)
	dst = appendSplice(dst, revision)
	return append(dst, e.suffix...)
}

// ManagedFields returns where metadata.managedFields lie in what AppendJSON and AppendJSONAt
// append, with the comma behind them; both are 0 where there are none.
func (e *Entry) ManagedFields() (from, to int) {
	from, to = int(e.managed.from), int(e.managed.to)
	for _, t := range e.shared {
		to += len(t.text)
	}
	return from, to
}

// IsBare tells whether an object's JSON without a resourceVersion is this one. It allocates
// nothing.
func (e *Entry) IsBare(object []byte) bool {
	if len(object) != e.bare() {
		return false
	}
	for part := range e.parts {
		if string(object[:len(part)]) != part {
			return false
		}
		object = object[len(part):]
	}
	return string(object) == e.suffix
}

func (e *Entry) appendPrefix(dst []byte) []byte {
	at := 0
	for i, t := range e.shared {
		to := int(e.managed.from) + i*stampBytes
		dst = append(dst, e.prefix[at:to]...)
		dst = append(dst, t.text...)
		at = to
	}
	return append(dst, e.prefix[at:]...)
}

// parts yields the prefix piece by piece.
func (e *Entry) parts(yield func(string) bool) {
	at := 0
	for i, t := range e.shared {
		to := int(e.managed.from) + i*stampBytes
		if !yield(e.prefix[at:to]) || !yield(t.text) {
			return
		}
		at = to
	}
	yield(e.prefix[at:])
}

// WriteTo writes what AppendJSON appends, in a few calls of w.Write and without allocating. It
// returns the number of bytes written and w's error.
func (e *Entry) WriteTo(w io.Writer) (total int64, err error) {
	for part := range e.parts {
		n, err := w.Write(bytesOf(part))
		total += int64(n)
		if err != nil {
			return total, err
		}
	}
	n, err := w.Write(e.splice[:e.spliced])
	total += int64(n)
	if err != nil {
		return total, err
	}
	n, err = w.Write(bytesOf(e.suffix))
	return total + int64(n), err
}

var _ io.WriterTo = (*Entry)(nil)

// entryLabels and entryFields show an entry to selectors. They are the entry itself under another
// name, so a look costs no allocation.
type (
	entryLabels Entry
	entryFields Entry
)

var (
	_ meta.Labels = (*entryLabels)(nil)
	_ meta.Labels = (*entryFields)(nil)
)

// Get returns the value of a label.
func (e *entryLabels) Get(key string) (string, bool) { return e.labels.Get(key) }

// Get returns the value of a selectable field.
func (e *entryFields) Get(field string) (string, bool) {
	switch field {
	case fieldName:
		return e.name, true
	case fieldNamespace:
		return e.namespace, true
	}
	if e.rare == nil || e.fields == nil {
		return "", false
	}
	for i, name := range *e.fields {
		if name == field {
			return e.rare.fields[i], true
		}
	}
	return "", false
}
