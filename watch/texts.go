package watch

import (
	"strings"
	"sync"
	"unsafe"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
)

// Texts makes entries that share what their managed fields have in common: objects that the same
// managers wrote in the same way differ there in times alone, and without server-side apply's
// book-keeping an object of 1 KiB would be a third smaller.
//
// It remembers the texts that it met lately, within a fixed budget, so that the next entries find
// them. It holds no entry, and an entry's texts live as long as it does. It may be used by many
// goroutines.
type Texts struct {
	mu         sync.Mutex
	young, old map[string]*text // a text that is used moves to the young ones
	bytes      int              // of the young ones
}

// text is a part of the managed fields of many objects.
type text struct {
	text string
	only []*text // itself: what an entry holds that has no other
}

const (
	// textBudget is how many bytes of young texts make them old; those who are old already are
	// forgotten then.
	textBudget = 128 << 10
	// textOverhead is about what a text costs beside its bytes.
	textOverhead = 128
	// maxTexts is how many texts are taken out of one object; one with more managers is kept whole.
	maxTexts = 32
	// maxText is the length of a text that is not worth remembering: who lists so many fields has
	// them for itself.
	maxText = 8 << 10
)

// NewTexts returns one that has met no text yet.
func NewTexts() *Texts { return &Texts{young: map[string]*text{}} }

// NewEntry makes an entry as [NewEntry] does, one that takes as little memory as possible and keeps
// nothing of the body: what it needs of that is copied into one piece of memory. It takes over the
// slices in facts; texts in these that are parts of the body become parts of the entry's own.
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

// sharable tells whether the offsets are in order, and whether there are a few times.
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

// move leads from parts of a body to the same parts of an entry's own memory, in which the first
// cut bytes are the prefix.
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

// text returns a text in the entry's memory if it is a part of the body, else the text itself.
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

// part tells where in b the memory of s lies, if it does. Nothing is read there: these are
// addresses.
func part(b []byte, s string) (from int, ok bool) {
	if s == "" {
		return 0, false
	}
	// What lies before b wraps around to a distance beyond any length.
	distance := uintptr(unsafe.Pointer(unsafe.StringData(s))) - uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return int(distance), distance < uintptr(len(b)) && len(s) <= len(b)-int(distance)
}
