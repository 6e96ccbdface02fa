package watch

import (
	"strings"
	"sync"
	"unsafe"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
)

// Texts makes entries that share the common parts of their managed fields. If the same managers
// wrote two objects in the same way, these differ only in their times. Managed fields are a third
// of an object of 1 KiB.
//
// Texts remembers recent texts within a fixed budget, so that new entries can share them. It does
// not keep entries, and an entry keeps its texts alive. It is safe for concurrent use.
type Texts struct {
	mu         sync.Mutex
	young, old map[string]*text // a text moves to young when it is used
	bytes      int              // of the young ones
}

// text is a part of the managed fields of many objects.
type text struct {
	text string
	only []*text // itself, for entries with a single text
}

const (
	// textBudget is the size at which the young texts become the old ones, and the old ones are
	// dropped.
	textBudget = 128 << 10
	// textOverhead is the approximate size of a text without its bytes.
	textOverhead = 128
	// maxTexts is the largest number of texts cut out of one object. An object with more managers
	// is kept whole.
	maxTexts = 32
	// maxText is the length from which a text is not worth remembering: few objects share one so
	// long.
	maxText = 8 << 10
)

// NewTexts returns an empty Texts.
func NewTexts() *Texts { return &Texts{young: map[string]*text{}} }

// NewEntry returns an entry like [NewEntry], but with as little memory as possible. It copies what
// it needs of the body into one piece of memory and keeps the slices in facts. Strings in these
// that are parts of the body become parts of the copy.
func (t *Texts) NewEntry(key string, revision storage.Revision, body Body, facts Facts) *Entry {
	e := newEntry(key, revision, facts)
	m := &body.Managed
	if m.sharable(len(body.Prefix)) {
		e.shared = t.take(body.Prefix, m)
	}
	own := make([]byte, 0, len(body.Prefix)+len(body.Suffix)-textBytes(e.shared))
	at := 0
	if len(e.shared) > 0 {
		own = append(own, body.Prefix[:m.From]...)
		for _, from := range m.Times {
			own = append(own, body.Prefix[from:from+stampBytes]...)
			at = from + stampBytes
		}
	}
	own = append(own, body.Prefix[at:]...)
	cut := len(own)
	own = append(own, body.Suffix...)
	e.prefix, e.suffix = view(own)[:cut], view(own)[cut:]
	e.managed = managed{uint32(m.From), uint32(m.To - (len(body.Prefix) - cut))}
	move{body: &body, own: view(own), cut: cut}.facts(e, &facts)
	e.count()
	return e
}

// sharable reports whether the offsets are in order, close together, and not too many.
func (m *Managed) sharable(length int) bool {
	at := m.From
	for _, from := range m.Times {
		if from < at || from-at > maxText {
			return false
		}
		at = from + stampBytes
	}
	return 0 < len(m.Times) && len(m.Times) <= maxTexts && at <= m.To && m.To <= length
}

func textBytes(texts []*text) (n int) {
	for _, t := range texts {
		n += len(t.text)
	}
	return n
}

// take returns the texts before each of the times.
func (t *Texts) take(prefix []byte, m *Managed) []*text {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(m.Times) == 1 {
		return t.get(prefix[m.From:m.Times[0]]).only
	}
	out, at := make([]*text, len(m.Times)), m.From
	for i, from := range m.Times {
		out[i] = t.get(prefix[at:from])
		at = from + stampBytes
	}
	return out
}

func (t *Texts) get(b []byte) *text {
	if found := t.young[string(b)]; found != nil {
		return found
	}
	found := t.old[string(b)]
	if found == nil {
		found = &text{text: string(b)}
		found.only = []*text{found}
	}
	if t.bytes > textBudget {
		t.young, t.old, t.bytes = map[string]*text{}, t.young, 0
	}
	t.young[found.text] = found
	t.bytes += len(b) + textOverhead
	return found
}

// move maps parts of a body to the same parts of an entry's own memory, in which the first cut
// bytes are the prefix.
type move struct {
	body *Body
	own  string
	cut  int
}

func (m move) facts(e *Entry, f *Facts) {
	e.name, e.namespace, e.uid = m.text(f.Name), m.text(f.Namespace), meta.UID(m.text(string(f.UID)))
	for i := range f.Labels {
		l := &f.Labels[i]
		l.Key, l.Value = m.text(l.Key), m.text(l.Value)
	}
	for i := range f.Fields {
		f.Fields[i] = m.text(f.Fields[i])
	}
	for i := range f.Owners {
		f.Owners[i] = meta.UID(m.text(string(f.Owners[i])))
	}
	e.labels = f.Labels
}

// text returns the copy of s in the entry's memory if s is a part of the body, or else s itself.
func (m move) text(s string) string {
	if from, ok := part(m.body.Suffix, s); ok {
		return m.own[m.cut+from:][:len(s)]
	}
	from, ok := part(m.body.Prefix, s)
	switch {
	case !ok:
		return s
	case from+len(s) <= m.body.Managed.From:
		return m.own[from:][:len(s)]
	case from >= m.body.Managed.To:
		return m.own[from-len(m.body.Prefix)+m.cut:][:len(s)]
	}
	return strings.Clone(s)
}

// part returns where in b the memory of s lies, if it does. It compares addresses and reads no
// memory.
func part(b []byte, s string) (from int, ok bool) {
	if s == "" {
		return 0, false
	}
	// An address before b wraps around to a distance beyond any length.
	distance := uintptr(unsafe.Pointer(unsafe.StringData(s))) - uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return int(distance), distance < uintptr(len(b)) && len(s) <= len(b)-int(distance)
}
