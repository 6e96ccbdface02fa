package watch

import (
	"io"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"sync"
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
// There is one entry per object, so every byte counts: what few readers ask for is packed, and the
// version is rendered when the entry is written.
type Entry struct {
	key string

	// text is the prefix and the suffix of the body, without the shared texts.
	text  string
	spans spans

	// shared holds the texts that were cut out of the prefix: the nth text belongs at offset
	// managed.from + n*stampBytes. The bytes between two texts are a time. It is nil if nothing was.
	shared *[]*text

	names    *[]string // of the declared fields; set by the cache before the entry becomes visible
	revision storage.Revision
	created  int64 // Unix seconds; of the zero time if absent

	cut      uint32 // the length of the prefix
	managed  managed
	form     uint16
	nameAt   uint8 // where in spans the name is, or farName
	deleting bool
}

// farName says that the name is too far back in the spans for Entry.nameAt.
const farName = math.MaxUint8

// managed locates the managed fields in the rest of the prefix; both are 0 if there are none.
type managed struct{ from, to uint32 }

const (
	spliceHead = `"resourceVersion":"`
	spliceTail = `",`
	maxSplice  = len(spliceHead) + 20 + len(spliceTail) // 20 digits hold every uint64

	stampBytes = len("2006-01-02T15:04:05Z")
)

// NewEntry returns the live form of a record: its storage key, the revision that wrote it, its JSON
// and its facts. The entry keeps the JSON if prefix and suffix are one piece of memory, so the
// caller must not modify it. Use it for records that are in memory anyway; [Texts.NewEntry] uses
// less memory otherwise.
func NewEntry(key string, revision storage.Revision, body Body, facts Facts) *Entry {
	e := newEntry(key, revision, &facts)
	e.text, e.cut = whole(&body), uint32(len(body.Prefix))
	e.managed = managed{uint32(body.Managed.From), uint32(body.Managed.To)}
	var room [maxQuickSpans]byte
	// Nothing is cut out, so parts of the managed fields are where they were.
	p := packer{body: &Body{Prefix: body.Prefix, Suffix: body.Suffix}, cut: len(body.Prefix)}
	packed, name := p.append(room[:0], &facts)
	e.spans, e.nameAt = spans(packed), uint8(min(name, farName))
	return e
}

// newEntry returns an entry without its text and its spans.
func newEntry(key string, revision storage.Revision, facts *Facts) *Entry {
	return &Entry{
		key: key, revision: revision, created: facts.Created.Unix(), form: facts.Form, deleting: facts.Deleted != nil,
	}
}

// whole returns the prefix and the suffix of a body as one text. It copies them unless the suffix
// follows the prefix in the same piece of memory, which the capacity of the prefix tells.
func whole(b *Body) string {
	if cap(b.Prefix)-len(b.Prefix) >= len(b.Suffix) {
		all := b.Prefix[:len(b.Prefix)+len(b.Suffix)]
		if len(b.Suffix) == 0 || &all[len(b.Prefix)] == &b.Suffix[0] {
			return view(all)
		}
	}
	return view(slices.Concat(b.Prefix, b.Suffix))
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
	b := Body{Prefix: bytesOf(e.text[:e.cut]), Suffix: bytesOf(e.text[e.cut:])}
	b.Managed.From, b.Managed.To = int(e.managed.from), int(e.managed.to)
	if e.shared != nil {
		b.Prefix = e.appendPrefix(make([]byte, 0, e.bare()-len(b.Suffix)))
		b.Managed.To += len(b.Prefix) - int(e.cut)
	}
	return b
}

// Facts returns the facts of the object. It makes the slices anew; [Entry.Name], [Entry.UID] and the
// like allocate nothing. The strings may be parts of the object's JSON and keep all of it in memory;
// copy a string that must outlive the entry.
func (e *Entry) Facts() Facts {
	f := Facts{Created: time.Unix(e.created, 0).UTC(), Form: e.form}
	u := e.unpack()
	f.Labels = u.labels(u.number())
	f.Fields = unpackStrings[string](&u, u.number())
	f.Owners = unpackStrings[meta.UID](&u, u.number())
	f.Name, f.Namespace, f.UID = u.string(), u.string(), meta.UID(u.string())
	if e.deleting {
		deleted := u.time()
		f.Deleted = &deleted
	}
	return f
}

// Name returns the name of the object.
func (e *Entry) Name() string {
	u := e.unpackName()
	return u.string()
}

// Namespace returns the namespace of the object, "" for a cluster-scoped one.
func (e *Entry) Namespace() string {
	u := e.unpackName()
	u.skip(1)
	return u.string()
}

// UID returns the uid of the object.
func (e *Entry) UID() meta.UID {
	u := e.unpackName()
	u.skip(2)
	return meta.UID(u.string())
}

// Labels returns the labels of the object.
func (e *Entry) Labels() meta.LabelSet {
	u := e.unpack()
	return u.labels(u.number())
}

// Form returns the form of the JSON, as in [Facts].
func (e *Entry) Form() uint16 { return e.form }

// Owners returns the uids of the owner references, nil if there are none.
func (e *Entry) Owners() []meta.UID {
	u := e.unpackOwners()
	return unpackStrings[meta.UID](&u, u.number())
}

// SameOwners reports whether the owner references of both objects, or of two states of one object,
// are textually equal.
func (e *Entry) SameOwners(other *Entry) bool {
	u, v := e.unpackOwners(), other.unpackOwners()
	n := u.number()
	if n != v.number() {
		return false
	}
	for range n {
		if u.string() != v.string() {
			return false
		}
	}
	return n == 0 || e.references() == other.references()
}

// references returns the JSON of the owner references of an object that has some. The members of
// metadata are sorted, so they are the last before the version. A quotation mark within a string
// has a backslash before it.
func (e *Entry) references() string {
	prefix := e.text[:e.cut]
	return prefix[max(strings.LastIndex(prefix, `"ownerReferences":`), 0):]
}

// Deleting reports whether the object has a deletion timestamp.
func (e *Entry) Deleting() bool { return e.deleting }

// fields returns the number of values of declared fields.
func (e *Entry) fields() int {
	u := e.unpackFields()
	return u.number()
}

// field returns the value of the nth declared field.
func (e *Entry) field(n int) string {
	u := e.unpackFields()
	_ = u.number()
	u.skip(n)
	return u.string()
}

// Size returns the approximate memory of the entry in bytes. Shared texts count in full, because
// the number of sharers is unknown.
func (e *Entry) Size() int {
	size := int(unsafe.Sizeof(*e)) + len(e.key) + len(e.text) + len(e.spans)
	for _, t := range e.texts() {
		size += int(unsafe.Sizeof(t)) + len(t.text)
	}
	return size
}

// Length returns how many bytes AppendJSON appends.
func (e *Entry) Length() int {
	return e.bare() + len(spliceHead) + digits(e.revision) + len(spliceTail)
}

// digits returns the length of a revision in decimal.
func digits(revision storage.Revision) int {
	n := (bits.Len64(uint64(revision)|1)*1233)>>12 + 1 // 1233/4096 is a little more than log10(2)
	if n <= len(powers) && uint64(revision) < powers[n-1] {
		n--
	}
	return max(n, 1)
}

// powers are those of 10 that a uint64 can hold.
var powers = [20]uint64{
	1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19,
}

// bare returns the length of the JSON without its resourceVersion.
func (e *Entry) bare() int { return len(e.text) + textBytes(e.texts()) }

// AppendJSON appends the object's JSON, with the entry's revision as resourceVersion.
func (e *Entry) AppendJSON(dst []byte) []byte { return e.AppendJSONAt(dst, e.revision) }

// AppendJSONAt appends the object's JSON with another revision as resourceVersion: a DELETED event
// shows the last state with the revision of the deletion.
func (e *Entry) AppendJSONAt(dst []byte, revision storage.Revision) []byte {
	dst = e.appendPrefix(dst)
	dst = appendSplice(dst, revision)
	return append(dst, e.text[e.cut:]...)
}

// AppendUnmanaged is AppendJSONAt without metadata.managedFields.
func (e *Entry) AppendUnmanaged(dst []byte, revision storage.Revision) []byte {
	dst = append(dst, e.text[:e.managed.from]...)
	dst = append(dst, e.text[e.managed.to:e.cut]...)
	dst = appendSplice(dst, revision)
	return append(dst, e.text[e.cut:]...)
}

// ManagedFields returns the position of metadata.managedFields, with the comma after them, in the
// output of AppendJSON and AppendJSONAt. Both are 0 if there are none.
func (e *Entry) ManagedFields() (from, to int) {
	return int(e.managed.from), int(e.managed.to) + textBytes(e.texts())
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
	return string(object) == e.text[e.cut:]
}

// texts returns the shared texts.
func (e *Entry) texts() []*text {
	if e.shared == nil {
		return nil
	}
	return *e.shared
}

func (e *Entry) appendPrefix(dst []byte) []byte {
	at := 0
	for i, t := range e.texts() {
		to := int(e.managed.from) + i*stampBytes
		dst = append(dst, e.text[at:to]...)
		dst = append(dst, t.text...)
		at = to
	}
	return append(dst, e.text[at:e.cut]...)
}

// parts yields the pieces of the prefix.
func (e *Entry) parts(yield func(string) bool) {
	at := 0
	for i, t := range e.texts() {
		to := int(e.managed.from) + i*stampBytes
		if !yield(e.text[at:to]) || !yield(t.text) {
			return
		}
		at = to
	}
	yield(e.text[at:e.cut])
}

// splices are buffers for versions: what is passed to a writer would be allocated otherwise.
var splices = sync.Pool{New: func() any { return new([maxSplice]byte) }}

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
	splice := splices.Get().(*[maxSplice]byte)
	n, err := w.Write(appendSplice(splice[:0], e.revision))
	splices.Put(splice)
	total += int64(n)
	if err != nil {
		return total, err
	}
	n, err = w.Write(bytesOf(e.text[e.cut:]))
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
func (e *entryLabels) Get(key string) (string, bool) {
	u := (*Entry)(e).unpack()
	return u.value(key, u.number())
}

// Get returns the value of a selectable field.
func (e *entryFields) Get(field string) (string, bool) {
	entry := (*Entry)(e)
	switch field {
	case fieldName:
		return entry.Name(), true
	case fieldNamespace:
		return entry.Namespace(), true
	}
	if e.names == nil {
		return "", false
	}
	for i, name := range *e.names {
		if name == field {
			return entry.field(i), true
		}
	}
	return "", false
}
