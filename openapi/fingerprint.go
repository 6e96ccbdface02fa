package openapi

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/kindwright/kindwright/internal/json"
)

// Fingerprint returns a hash of everything that affects how stored objects are read: fields, types,
// forms and defaults. Descriptions, validation and columns do not change it. The value is the same
// in every process. It is zero only for a schema that has not passed New.
func (s *Schema) Fingerprint() uint64 {
	if s.ready == nil {
		return 0
	}
	return s.ready.meaning
}

// ownMeaning hashes a node whose children already have their fingerprints. Because each child
// contributes eight bytes, the cost is linear in the number of nodes.
func (s *Schema) ownMeaning() uint64 {
	room := meanings.Get().(*[]byte)
	defer meanings.Put(room)
	*room = s.appendMeaning((*room)[:0], func(dst []byte, child *Schema) []byte {
		return binary.BigEndian.AppendUint64(dst, child.ready.meaning)
	})
	return hashed(*room)
}

// meanings is the room for what is hashed. A document of a thousand small nodes would take 128 bytes for each.
var meanings = sync.Pool{New: func() any { return new([]byte) }}

// circularMeaning hashes a node that contains itself. A back reference is hashed as the number of
// levels up to the node it refers to, so the result does not depend on where the walk begins.
func (s *Schema) circularMeaning() uint64 {
	var above []*Schema
	var write func(dst []byte, s *Schema) []byte
	write = func(dst []byte, s *Schema) []byte {
		if !s.ready.circular {
			return binary.BigEndian.AppendUint64(dst, s.ready.meaning)
		}
		plain := s.Undocumented()
		if up := slices.Index(above, plain); up >= 0 {
			return appendWords(dst, "up", strconv.Itoa(len(above)-up))
		}
		above = append(above, plain)
		dst = s.appendMeaning(dst, write)
		above = above[:len(above)-1]
		return dst
	}
	return hashed(write(nil, s))
}

func hashed(meaning []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(meaning) // a hash never returns an error
	return max(h.Sum64(), 1)
}

// appendMeaning appends everything that decides how an object under the schema is read. child
// appends the contribution of a child schema. Properties are sorted first, since the order of Go
// fields or of a document must not change the fingerprint.
func (s *Schema) appendMeaning(dst []byte, child func(dst []byte, s *Schema) []byte) []byte {
	codecName := ""
	if s.codec != nil {
		codecName = s.codec.name
	}
	width := ""
	if s.Type == Integer || s.Type == Number {
		width = s.Format // formats of strings only affect validation
	}
	dst = appendWords(dst, "{", string(s.Type), width, string(s.Notation), codecName)
	for _, flag := range []bool{s.Nullable, s.PreserveUnknown, s.EmbeddedObject, s.IntOrString, s.OrNumber} {
		dst = appendWords(dst, strconv.FormatBool(flag))
	}
	if s.DefaultValue != nil {
		if text, err := json.AppendTree(nil, s.DefaultValue); err == nil {
			dst = appendWords(dst, "default", string(text))
		}
	}
	properties, byName := s.Properties, func(a, b Property) int { return strings.Compare(a.Name, b.Name) }
	if !slices.IsSortedFunc(properties, byName) {
		properties = slices.Clone(properties)
		slices.SortFunc(properties, byName)
	}
	const each = 32 // what a property takes beside its name; room for all at once, or it doubles
	room := 0
	for _, p := range properties {
		room += len(p.Name) + each
	}
	dst = slices.Grow(dst, room)
	for _, p := range properties {
		dst = appendWords(dst, "property", p.Name)
		if p.Schema != nil {
			dst = child(dst, p.Schema)
		}
	}
	if s.AdditionalProperties != nil {
		dst = appendWords(dst, "additional")
		dst = child(dst, s.AdditionalProperties)
	}
	if s.Items != nil {
		dst = appendWords(dst, "items")
		dst = child(dst, s.Items)
	}
	return appendWords(dst, "}")
}

// appendWords writes each word with its length as a prefix, so that different lists of words never
// produce the same bytes.
func appendWords(dst []byte, words ...string) []byte {
	for _, word := range words {
		dst = strconv.AppendInt(dst, int64(len(word)), 10)
		dst = append(dst, ':')
		dst = append(dst, word...)
	}
	return dst
}
