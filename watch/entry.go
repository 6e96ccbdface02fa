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

// Body is the JSON of an object, split where its resourceVersion belongs: inside metadata, before a
// member. The whole is Prefix + `"resourceVersion":"<revision>",` + Suffix.
type Body struct {
	Prefix, Suffix []byte
	Managed        Managed
}

// Managed locates metadata.managedFields in the prefix of a body: Prefix[From:To] is the member
// with the comma after it. It is zero if there is none.
type Managed struct {
	From, To int
	// Times are the offsets of the time stamps in it, in ascending order. Each has the length of an
	// RFC 3339 time in UTC to the second. The text between them is the same for objects that the
	// same managers wrote.
	Times []int
}

// Facts are what reads need to know about an object without decoding it. All readers share the
// slices, which never change.
type Facts struct {
	Namespace string // "" for a cluster-scoped object
	Name      string
	UID       meta.UID
	Labels    meta.LabelSet
	Fields    []string   // values of the kind's declared fields, in the order of [CacheConfig].Fields
	Owners    []meta.UID // uids of the owner references
	Created   time.Time  // UTC, to the second
	Deleted   *time.Time // the deletion timestamp, or nil

	// Form is a number that the kind gives to the form that the JSON is written in. The cache does not
	// interpret it.
	Form uint16
}

// Entry is one object at one revision, ready to be written to a client. It is immutable and shared:
// the index, snapshots, the log, all watchers and all lists use the same entry. Make one with
// [NewEntry] or [Texts.NewEntry].
//
// There is one entry per object, so every byte counts.
type Entry struct {
	key            string
	revision       storage.Revision
	prefix, suffix string

	// shared holds the texts that were cut out of the prefix: the nth text belongs at offset
	// managed.from + n*stampBytes. The bytes between two texts are a time.
	shared  []*text
	managed managed

	name, namespace string
	uid             meta.UID
	labels          meta.LabelSet
	created         int64 // Unix seconds; of the zero time if absent
	rare            *rare // nil for most objects
	size            uint32
	form            uint16

	// splice is `"resourceVersion":"<revision>",`, rendered once so that writing an entry allocates
	// nothing.
	spliced uint8
	splice  [maxSplice]byte
}

// managed locates the managed fields in the rest of the prefix; both are 0 if there are none.
type managed struct{ from, to uint32 }

// rare holds the facts that most objects do not have.
type rare struct {
	fields  []string
	owners  []meta.UID
	deleted *time.Time
	names   *[]string // of the fields; set by the cache before the entry becomes visible
}

const (
	spliceHead = `"resourceVersion":"`
	spliceTail = `",`
	maxSplice  = len(spliceHead) + 20 + len(spliceTail) // 20 digits hold every uint64

	stampBytes = len("2006-01-02T15:04:05Z")
)

// NewEntry returns the live form of a record: its storage key, the revision that wrote it, its JSON
// and its facts. The entry keeps its arguments, so the caller must not modify them. Use it for
// records that are in memory anyway; [Texts.NewEntry] uses less memory otherwise.
func NewEntry(key string, revision storage.Revision, body Body, facts Facts) *Entry {
	e := newEntry(key, revision, facts)
	e.prefix, e.suffix = view(body.Prefix), view(body.Suffix)
	e.name, e.namespace, e.uid, e.labels = facts.Name, facts.Namespace, facts.UID, facts.Labels
	e.managed = managed{uint32(body.Managed.From), uint32(body.Managed.To)}
	e.count()
	return e
}

// newEntry returns an entry without the parts that can share memory with its body.
func newEntry(key string, revision storage.Revision, facts Facts) *Entry {
	var e *Entry
	if facts.Fields != nil || facts.Owners != nil || facts.Deleted != nil {
		all := &rareEntry{rare: rare{fields: facts.Fields, owners: facts.Owners, deleted: facts.Deleted}}
		all.entry.rare = &all.rare
		e = &all.entry
	} else {
		e = &Entry{}
	}
	e.key, e.revision, e.created, e.form = key, revision, facts.Created.Unix(), facts.Form
	e.spliced = uint8(len(appendSplice(e.splice[:0], revision)))
	return e
}

// rareEntry is an entry with rare facts, in one piece of memory: the collector counts pieces.
type rareEntry struct {
	entry Entry
	rare  rare
}

// count sets the size. Shared texts count in full, because the number of sharers is unknown.
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

// view returns the text of bytes that never change any more, without a copy.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// bytesOf returns text as bytes for an io.Writer, which must not change them.
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

// Body returns the JSON without its resourceVersion, as passed to NewEntry except for
// Managed.Times, which are not kept. The caller must not modify it. If the entry shares texts with
// others, the prefix is a copy.
func (e *Entry) Body() Body {
	b := Body{Prefix: bytesOf(e.prefix), Suffix: bytesOf(e.suffix)}
	b.Managed.From, b.Managed.To = int(e.managed.from), int(e.managed.to)
	if len(e.shared) > 0 {
		b.Prefix = e.appendPrefix(make([]byte, 0, e.bare()-len(e.suffix)))
		b.Managed.To += len(b.Prefix) - len(e.prefix)
	}
	return b
}

// Facts returns the facts of the object. The caller must not modify the slices. The strings may be
// parts of the object's JSON and keep all of it in memory; copy a string that must outlive the
// entry.
func (e *Entry) Facts() Facts {
	f := Facts{Namespace: e.namespace, Name: e.name, UID: e.uid, Labels: e.labels, Created: time.Unix(e.created, 0).UTC(), Form: e.form}
	if r := e.rare; r != nil {
		f.Fields, f.Owners, f.Deleted = r.fields, r.owners, r.deleted
	}
	return f
}

// UID returns the uid of the object.
func (e *Entry) UID() meta.UID { return e.uid }

// Form returns the form of the JSON, as in [Facts].
func (e *Entry) Form() uint16 { return e.form }

// Owners returns the uids of the owner references. The caller must not modify them.
func (e *Entry) Owners() []meta.UID {
	if e.rare == nil {
		return nil
	}
	return e.rare.owners
}

// SameOwners reports whether the owner references of both objects, or of two states of one object,
// are textually equal.
func (e *Entry) SameOwners(other *Entry) bool {
	return slices.Equal(e.Owners(), other.Owners()) && (len(e.Owners()) == 0 || e.references() == other.references())
}

// references returns the JSON of the owner references of an object that has some. The members of
// metadata are sorted, so they are the last before the version. A quotation mark within a string
// has a backslash before it.
func (e *Entry) references() string {
	return e.prefix[max(strings.LastIndex(e.prefix, `"ownerReferences":`), 0):]
}

// Deleting reports whether the object has a deletion timestamp.
func (e *Entry) Deleting() bool { return e.rare != nil && e.rare.deleted != nil }

// values returns the values of the kind's declared fields.
func (e *Entry) values() []string {
	if e.rare == nil {
		return nil
	}
	return e.rare.fields
}

// Size returns the approximate memory of the entry in bytes.
func (e *Entry) Size() int { return int(e.size) }

// Length returns how many bytes AppendJSON appends.
func (e *Entry) Length() int { return e.bare() + int(e.spliced) }

// bare returns the length of the JSON without its resourceVersion.
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

// AppendUnmanaged is AppendJSONAt without metadata.managedFields.
func (e *Entry) AppendUnmanaged(dst []byte, revision storage.Revision) []byte {
	dst = append(dst, e.prefix[:e.managed.from]...)
	dst = append(dst, e.prefix[e.managed.to:]...)
	dst = appendSplice(dst, revision)
	return append(dst, e.suffix...)
}

// ManagedFields returns the position of metadata.managedFields, with the comma after them, in the
// output of AppendJSON and AppendJSONAt. Both are 0 if there are none.
func (e *Entry) ManagedFields() (from, to int) {
	from, to = int(e.managed.from), int(e.managed.to)
	for _, t := range e.shared {
		to += len(t.text)
	}
	return from, to
}

// IsBare reports whether object is this entry's JSON without a resourceVersion. It does not
// allocate.
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

// parts yields the pieces of the prefix.
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

// WriteTo writes the output of AppendJSON in a few calls of w.Write, without allocating. It returns
// the number of bytes written and w's error.
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

// entryLabels and entryFields present an entry to selectors. They are the entry itself under
// another type, so a look-up does not allocate.
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
	if e.rare == nil || e.rare.names == nil {
		return "", false
	}
	for i, name := range *e.rare.names {
		if name == field {
			return e.rare.fields[i], true
		}
	}
	return "", false
}
