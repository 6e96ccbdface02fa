package openapi

import (
	"hash/fnv"
	"slices"
	"strconv"

	"github.com/kindwright/kindwright/internal/json"
)

// Fingerprint changes when objects written under the schema would read differently: when fields, types, forms or defaults
// change. It does not change with descriptions, validation or columns. It is the same in every process, and zero only
// for a schema that did not pass New.
func (s *Schema) Fingerprint() uint64 {
	if s.ready == nil {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write(s.appendMeaning(nil)) // writing to a hash does not fail
	return max(h.Sum64(), 1)
}

// appendMeaning appends everything that decides how objects under the schema read.
func (s *Schema) appendMeaning(dst []byte) []byte {
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
	slices.SortFunc(properties, func(a, b Property) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	for _, p := range properties {
		dst = appendWords(dst, "property", p.Name)
		dst = p.Schema.appendMeaning(dst)
	}
	if s.AdditionalProperties != nil {
		dst = appendWords(dst, "additional")
		dst = s.AdditionalProperties.appendMeaning(dst)
	}
	if s.Items != nil {
		dst = appendWords(dst, "items")
		dst = s.Items.appendMeaning(dst)
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
