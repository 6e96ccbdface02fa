package watch

import (
	"slices"
	"sync"
	"unsafe"

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

	// latest is the texts of the newest entry whose first text is this one. Most entries have the
	// same texts as another one.
	latest *[]*text
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
// it needs of the body and of the facts into one piece of memory.
func (t *Texts) NewEntry(key string, revision storage.Revision, body Body, facts Facts) *Entry {
	e := newEntry(key, revision, &facts)
	m := &body.Managed
	if m.sharable(len(body.Prefix)) {
		e.shared = t.take(body.Prefix, m)
	}
	e.cut = uint32(len(body.Prefix) - textBytes(e.texts()))
	e.managed = managed{uint32(m.From), uint32(m.To - len(body.Prefix) + int(e.cut))}
	var room [maxQuickSpans]byte
	packed, name := packer{body: &body, cut: int(e.cut)}.append(room[:0], &facts)
	e.nameAt = uint8(min(name, farName))

	length := int(e.cut) + len(body.Suffix)
	own := make([]byte, 0, length+len(packed))
	at := 0
	if e.shared != nil {
		own = append(own, body.Prefix[:m.From]...)
		for _, from := range m.Times {
			own = append(own, body.Prefix[from:from+stampBytes]...)
			at = from + stampBytes
		}
	}
	own = append(own, body.Prefix[at:]...)
	own = append(own, body.Suffix...)
	own = append(own, packed...)
	e.text, e.spans = view(own[:length]), spans(view(own[length:]))
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

// take returns the texts before each of the times. Those with the same texts share the slice, too.
func (t *Texts) take(prefix []byte, m *Managed) *[]*text {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := t.get(prefix[m.From:m.Times[0]])
	if len(m.Times) == 1 {
		return &first.only
	}
	var room [maxTexts]*text
	out, at := room[:0], m.From
	for _, from := range m.Times {
		out = append(out, t.get(prefix[at:from]))
		at = from + stampBytes
	}
	if first.latest == nil || !slices.Equal(*first.latest, out) {
		own := slices.Clone(out)
		first.latest = &own
	}
	return first.latest
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
