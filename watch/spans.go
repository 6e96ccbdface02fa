package watch

import (
	"encoding/binary"
	"time"

	"github.com/kindwright/kindwright/meta"
)

// spans are the facts of an entry in a few bytes, most of them as places in the entry's text. There
// is one for each object, so it is packed: labels, declared fields and owners (each with their number
// before them), name, namespace, uid and the time of the deletion. Selectors ask for labels most
// often. A string is
//
//	a number of which the lowest bit is 0: the offset in the text, doubled; then the length
//	a number of which the lowest bit is 1: the length, doubled; then the string itself
//
// All numbers are varints.
type spans string

// packer makes spans of facts. It passes on what is packed, so that callers can have it on the stack.
type packer struct {
	body *Body

	// The first cut bytes of the entry's text are its prefix. What is left of the managed fields is
	// somewhere else than in the body.
	cut int
}

// maxQuickSpans is how many bytes of spans need no memory of their own while they are packed.
const maxQuickSpans = 256

// append appends all facts to packed, which is empty. It returns where the name is, too.
func (p packer) append(packed []byte, f *Facts) (_ []byte, name int) {
	packed = appendNumber(packed, len(f.Labels))
	for i := range f.Labels {
		packed = p.text(p.text(packed, f.Labels[i].Key), f.Labels[i].Value)
	}
	packed = appendNumber(packed, len(f.Fields))
	for _, value := range f.Fields {
		packed = p.text(packed, value)
	}
	packed = appendNumber(packed, len(f.Owners))
	for _, uid := range f.Owners {
		packed = p.text(packed, string(uid))
	}
	name = len(packed)
	packed = p.text(p.text(p.text(packed, f.Name), f.Namespace), string(f.UID))
	if f.Deleted != nil {
		packed = binary.AppendVarint(packed, f.Deleted.Unix())
		packed = appendNumber(packed, f.Deleted.Nanosecond())
	}
	return packed, name
}

func appendNumber(packed []byte, n int) []byte { return binary.AppendUvarint(packed, uint64(n)) }

func (p packer) text(packed []byte, s string) []byte {
	if at, ok := p.place(s); ok {
		return appendNumber(appendNumber(packed, at<<1), len(s))
	}
	return append(appendNumber(packed, len(s)<<1|1), s...)
}

// place returns where the text has a string that is a part of the body.
func (p packer) place(s string) (at int, ok bool) {
	if at, ok = part(p.body.Suffix, s); ok {
		return p.cut + at, true
	}
	at, ok = part(p.body.Prefix, s)
	switch {
	case !ok:
		return 0, false
	case at+len(s) <= p.body.Managed.From:
		return at, true
	case at >= p.body.Managed.To:
		return at - len(p.body.Prefix) + p.cut, true
	}
	return 0, false
}

// unpacker reads spans from front to back.
type unpacker struct {
	left spans
	text string
}

// number reads a number of at most 63 bits. Most are below 128 or below 16384.
func (u *unpacker) number() int {
	b := u.left[0]
	if b < 0x80 {
		u.left = u.left[1:]
		return int(b)
	}
	n := int(b & 0x7f)
	for i, shift := 1, 7; ; i, shift = i+1, shift+7 {
		b = u.left[i]
		n |= int(b&0x7f) << shift
		if b < 0x80 {
			u.left = u.left[i+1:]
			return n
		}
	}
}

func (u *unpacker) string() string {
	n := u.number()
	if n&1 == 0 {
		length := u.number()
		return u.text[n>>1:][:length]
	}
	s := string(u.left[:n>>1])
	u.left = u.left[n>>1:]
	return s
}

// skip passes over a number of strings.
func (u *unpacker) skip(strings int) {
	for range strings {
		if n := u.number(); n&1 == 0 {
			u.number()
		} else {
			u.left = u.left[n>>1:]
		}
	}
}

// unpack returns an unpacker at the number of labels.
func (e *Entry) unpack() unpacker { return unpacker{e.spans, e.text} }

// unpackFields returns an unpacker at the number of fields.
func (e *Entry) unpackFields() unpacker {
	u := e.unpack()
	u.skip(2 * u.number())
	return u
}

// unpackOwners returns an unpacker at the number of owners.
func (e *Entry) unpackOwners() unpacker {
	u := e.unpackFields()
	u.skip(u.number())
	return u
}

// unpackName returns an unpacker at the name.
func (e *Entry) unpackName() unpacker {
	if e.nameAt != farName {
		return unpacker{e.spans[e.nameAt:], e.text}
	}
	u := e.unpackOwners()
	u.skip(u.number())
	return u
}

// value returns the value of the first of n labels that has the key.
func (u *unpacker) value(key string, n int) (string, bool) {
	for range n {
		if u.equals(key) {
			return u.string(), true
		}
		u.skip(1)
	}
	return "", false
}

// equals reads a string and reports whether it is the given one.
func (u *unpacker) equals(s string) bool {
	n := u.number()
	if n&1 == 0 {
		length := u.number()
		return length == len(s) && u.text[n>>1:][:length] == s
	}
	own := u.left[:n>>1]
	u.left = u.left[n>>1:]
	return string(own) == s
}

func (u *unpacker) labels(n int) meta.LabelSet {
	if n == 0 {
		return nil
	}
	out := make(meta.LabelSet, n)
	for i := range out {
		out[i] = meta.Label{Key: u.string(), Value: u.string()}
	}
	return out
}

// unpackStrings returns n strings, nil for none.
func unpackStrings[S ~string](u *unpacker, n int) []S {
	if n == 0 {
		return nil
	}
	out := make([]S, n)
	for i := range out {
		out[i] = S(u.string())
	}
	return out
}

func (u *unpacker) time() time.Time {
	unsigned := uint64(u.number()) // zigzag, as encoding/binary writes it
	seconds := int64(unsigned>>1) ^ -int64(unsigned&1)
	return time.Unix(seconds, int64(u.number())).UTC()
}
