package openapi

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
)

// Fingerprint changes when objects written under the schema would read differently: when fields, types, forms or defaults
// change. It does not change with descriptions, validation or columns. It is the same in every process, and zero only
// for a schema that did not pass New.
func (s *Schema) Fingerprint() uint64 {
	if s.ready == nil {
		return 0
	}
	return s.ready.meaning
}

// ownMeaning is the fingerprint of a node whose children have one.
func (s *Schema) ownMeaning() uint64 {
	return hashed(s.appendMeaning(nil, func(dst []byte, child *Schema) []byte {
		return binary.BigEndian.AppendUint64(dst, child.ready.meaning)
	}))
}

// circularMeaning is the fingerprint of a node that contains itself: where it is met again, what counts is how far up.
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
	_, _ = h.Write(meaning) // writing to a hash does not fail
	return max(h.Sum64(), 1)
}

// appendMeaning appends everything that decides how objects under the schema read.
func (s *Schema) appendMeaning(dst []byte, child func(dst []byte, s *Schema) []byte) []byte {
	codecName := ""
	if s.codec != nil {
		codecName = s.codec.name
	}
	width := ""
	if s.Type == Integer || s.Type == Number {
		width = s.Format // of strings it decides nothing but validity
	}
	dst = appendWords(dst, "{", string(s.Type), width, string(s.Form), codecName)
	for _, flag := range []bool{s.Nullable, s.PreserveUnknown, s.EmbeddedObject, s.IntOrString, s.OrNumber} {
		dst = appendWords(dst, strconv.FormatBool(flag))
	}
	if s.DefaultValue != nil {
		if text, err := json.AppendTree(nil, s.DefaultValue); err == nil {
			dst = appendWords(dst, "default", string(text))
		}
	}
	properties := slices.Clone(s.Properties)
	slices.SortFunc(properties, func(a, b Property) int { return strings.Compare(a.Name, b.Name) })
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

// appendWords separates words by their lengths, so that no two lists of words are written alike.
func appendWords(dst []byte, words ...string) []byte {
	for _, word := range words {
		dst = strconv.AppendInt(dst, int64(len(word)), 10)
		dst = append(dst, ':')
		dst = append(dst, word...)
	}
	return dst
}
