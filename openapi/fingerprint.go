package openapi

import (
	"hash"
	"hash/fnv"
	"io"
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
	s.fingerprint(h)
	return max(h.Sum64(), 1)
}

func (s *Schema) fingerprint(h hash.Hash64) {
	codecName := ""
	if s.codec != nil {
		codecName = s.codec.name
	}
	width := ""
	if s.Type == Integer || s.Type == Number {
		width = s.Format // of strings it decides nothing but validity
	}
	write(h, "{", string(s.Type), width, string(s.Form), codecName)
	for _, flag := range []bool{s.Nullable, s.PreserveUnknown, s.EmbeddedObject, s.IntOrString, s.OrNumber} {
		write(h, strconv.FormatBool(flag))
	}
	if s.DefaultValue != nil {
		if text, err := json.AppendTree(nil, s.DefaultValue); err == nil {
			write(h, "default", string(text))
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
		write(h, "property", p.Name)
		p.Schema.fingerprint(h)
	}
	if s.AdditionalProperties != nil {
		write(h, "additional")
		s.AdditionalProperties.fingerprint(h)
	}
	if s.Items != nil {
		write(h, "items")
		s.Items.fingerprint(h)
	}
	write(h, "}")
}

// write separates words by their lengths, so that no two lists of words are written alike.
func write(w io.Writer, words ...string) {
	for _, word := range words {
		// Writing to a hash does not fail.
		_, _ = io.WriteString(w, strconv.Itoa(len(word))+":"+word)
	}
}
