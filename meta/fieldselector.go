package meta

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// FieldOp says how a field requirement compares.
type FieldOp string

// The operators of field requirements.
const (
	Equals    FieldOp = "="
	NotEquals FieldOp = "!="
)

// FieldRequirement is one condition on a field such as "metadata.name".
type FieldRequirement struct {
	Field string
	Op    FieldOp
	Value string
}

// FieldSelector is a set of requirements on fields, all of which must hold. The zero value matches
// everything. A FieldSelector never changes and is safe for concurrent use. Source: QUERY-20.
type FieldSelector struct{ reqs []FieldRequirement } // sorted, distinct

// ParseFieldSelector parses s in time linear in its length.
//
// Requirements have the forms a=b, a==b and a!=b and are separated by commas; empty ones are
// skipped. A backslash escapes backslash, comma and '=' in values. ParseFieldSelector does not know
// which fields exist: see [FieldSelector.Check].
func ParseFieldSelector(s string) (FieldSelector, error) {
	var reqs []FieldRequirement
	for s != "" {
		var term string
		if term, s = cutTerm(s); term == "" {
			continue
		}
		if len(reqs) == MaxRequirements {
			return FieldSelector{}, fmt.Errorf("invalid field selector: %w", errTooManyRequirements)
		}
		r, err := parseFieldTerm(term)
		if err != nil {
			return FieldSelector{}, fmt.Errorf("invalid field selector %s: %w", quoteShort(term), err)
		}
		reqs = append(reqs, r)
	}
	return canonicalFields(reqs), nil
}

// NewFieldSelector checks and combines requirements. Without requirements it returns a selector
// that matches everything.
func NewFieldSelector(reqs ...FieldRequirement) (FieldSelector, error) {
	if len(reqs) > MaxRequirements {
		return FieldSelector{}, errTooManyRequirements
	}
	for _, r := range reqs {
		if r.Op != Equals && r.Op != NotEquals {
			return FieldSelector{}, fmt.Errorf("%s is not an operator of field selectors", quoteShort(string(r.Op)))
		}
		if err := checkFieldName(r.Field); err != nil {
			return FieldSelector{}, err
		}
	}
	return canonicalFields(slices.Clone(reqs)), nil
}

func canonicalFields(reqs []FieldRequirement) FieldSelector {
	if len(reqs) == 0 {
		return FieldSelector{}
	}
	slices.SortFunc(reqs, func(a, b FieldRequirement) int {
		if c := strings.Compare(a.Field, b.Field); c != 0 {
			return c
		}
		if c := strings.Compare(string(b.Op), string(a.Op)); c != 0 { // "=" before "!="
			return c
		}
		return strings.Compare(a.Value, b.Value)
	})
	return FieldSelector{reqs: slices.Compact(reqs)}
}

// Matches reports whether all requirements hold. A field that l does not have counts as empty. It
// does not allocate.
func (f FieldSelector) Matches(l Labels) bool {
	for i := range f.reqs {
		r := &f.reqs[i]
		value, _ := l.Get(r.Field)
		if (value == r.Value) != (r.Op == Equals) {
			return false
		}
	}
	return true
}

// Empty reports whether f requires nothing.
func (f FieldSelector) Empty() bool { return len(f.reqs) == 0 }

// Exact returns the value that an '=' requirement demands of the field, if there is one. It returns
// the smallest if several contradict each other; such a selector matches nothing.
func (f FieldSelector) Exact(field string) (value string, ok bool) {
	for i := range f.reqs {
		if r := &f.reqs[i]; r.Field == field && r.Op == Equals {
			return r.Value, true
		}
	}
	return "", false
}

// Unknown returns the first field that f requires and that is not in known, and "" if there is none. It is
// cut to a sensible length.
func (f FieldSelector) Unknown(known ...string) string {
	for i := range f.reqs {
		if name := f.reqs[i].Field; !slices.Contains(known, name) {
			return name[:min(len(name), maxQuoted)]
		}
	}
	return ""
}

// Check returns an error if f requires a field that is not in known. Its text is suited to a 400
// response.
func (f FieldSelector) Check(known ...string) error {
	for i := range f.reqs {
		if slices.Contains(known, f.reqs[i].Field) {
			continue
		}
		quoted := make([]string, len(known))
		for j, k := range known {
			quoted[j] = strconv.Quote(k)
		}
		return fmt.Errorf("%s is not a known field selector: only %s", quoteShort(f.reqs[i].Field), strings.Join(quoted, ", "))
	}
	return nil
}

// String returns the canonical form. It is equal for selectors that differ only in order,
// repetition or "==" instead of "=". Parsing it gives an equal selector.
func (f FieldSelector) String() string {
	var b strings.Builder
	for i, r := range f.reqs {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(r.Field)
		b.WriteString(string(r.Op))
		appendFieldValue(&b, r.Value)
	}
	return b.String()
}

// Requirements returns a copy of the requirements in canonical order.
func (f FieldSelector) Requirements() []FieldRequirement { return slices.Clone(f.reqs) }

// cutTerm splits s at its first comma that has no backslash before it.
func cutTerm(s string) (term, rest string) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case ',':
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

func parseFieldTerm(term string) (FieldRequirement, error) {
	i := strings.IndexAny(term, "=!")
	if i < 0 {
		return FieldRequirement{}, errors.New("no '=', '==' or '!='")
	}
	r := FieldRequirement{Field: term[:i], Op: Equals}
	value := term[i:]
	switch {
	case strings.HasPrefix(value, "!="):
		r.Op, value = NotEquals, value[2:]
	case strings.HasPrefix(value, "=="):
		value = value[2:]
	case value[0] == '=':
		value = value[1:]
	default:
		return FieldRequirement{}, errors.New("'!' without '='")
	}
	if err := checkFieldName(r.Field); err != nil {
		return FieldRequirement{}, err
	}
	var err error
	r.Value, err = unescapeFieldValue(value)
	return r, err
}

// checkFieldName rejects names that the canonical form cannot represent. The resource decides which
// names exist.
func checkFieldName(s string) error {
	if s == "" {
		return errors.New("a field name is missing")
	}
	if strings.ContainsAny(s, "=!,\\") {
		return fmt.Errorf("field name %s has one of the characters '=', '!', ',' and '\\'", quoteShort(s))
	}
	return nil
}

func unescapeFieldValue(s string) (string, error) {
	if !strings.ContainsAny(s, `\=,`) {
		return s, nil
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\\':
			if i++; i == len(s) || !isFieldSpecial(s[i]) {
				return "", errors.New("a backslash must be followed by '\\', ',' or '='")
			}
			b.WriteByte(s[i])
		case '=', ',':
			return "", fmt.Errorf("%q in a value needs a backslash before it", string(c))
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), nil
}

func appendFieldValue(b *strings.Builder, s string) {
	for i := range len(s) {
		if isFieldSpecial(s[i]) {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
}

func isFieldSpecial(c byte) bool { return c == '\\' || c == ',' || c == '=' }
