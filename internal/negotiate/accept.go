package negotiate

import (
	"iter"
	"strings"
)

// weightUnit represents the weight 1 of RFC 9110. Weights are stored in thousandths, which is the
// finest step that the RFC allows.
const weightUnit = 1000

// mediaRange is one element of an Accept header. Names are as sent; they are compared
// case-insensitively.
type mediaRange struct {
	typ, subtype string
	weight       int // from 0 (not acceptable) to weightUnit

	as, group, version string
	stream, charset    string
	pretty, unmanaged  bool
}

func (m *mediaRange) is(typ, subtype string) bool {
	return strings.EqualFold(m.typ, typ) && strings.EqualFold(m.subtype, subtype)
}

// specificity orders ranges of equal weight. A client that names a type prefers it to one that
// matches a wildcard.
func (m *mediaRange) specificity() int {
	switch {
	case m.typ == "*":
		return 0
	case m.subtype == "*":
		return 1
	}
	return 2
}

// The limits of an Accept header. Clients send a dozen short elements.
const (
	maxRanges     = 200
	maxRangeBytes = 1 << 10
)

// ranges yields the elements of the Accept header fields in order. It skips malformed elements, as
// it would skip an unsupported type, and empty ones (RFC 9110, section 5.6.1). The cost is linear
// in the length of the fields. It only allocates if a quoted value has escapes. It ignores elements
// after the first maxRanges, and those that are longer than any type that is known.
//
// Source: S16.
func ranges(fields []string) iter.Seq[mediaRange] {
	return func(yield func(mediaRange) bool) {
		n := 0
		for _, field := range fields {
			for field != "" {
				var element string
				element, field = cut(field, ',')
				if len(element) > maxRangeBytes {
					continue
				}
				if n++; n > maxRanges {
					return
				}
				if m, ok := parseRange(element); ok && !yield(m) {
					return
				}
			}
		}
	}
}

// cut splits s at the first separator outside of a quoted string. It trims both parts.
func cut(s string, separator byte) (before, after string) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted:
			i++
		case c == separator && !quoted:
			return trim(s[:i]), trim(s[i+1:])
		}
	}
	return trim(s), ""
}

func trim(s string) string { return strings.Trim(s, " \t") }

// parseRange parses `type/subtype;name=value;…`.
func parseRange(s string) (m mediaRange, ok bool) {
	full, parameters := cut(s, ';')
	m.typ, m.subtype, ok = strings.Cut(full, "/")
	if !ok || !token(m.typ) || !token(m.subtype) && m.subtype != swaggerAsked || m.typ == "*" && m.subtype != "*" {
		return m, false
	}
	m.weight = weightUnit
	var seen parameterSet
	for parameters != "" {
		var parameter string
		parameter, parameters = cut(parameters, ';')
		if parameter == "" {
			continue
		}
		name, value, found := strings.Cut(parameter, "=")
		if !found || !token(name) {
			return m, false
		}
		if value, ok = unquote(value); !ok || !m.set(name, value, &seen) {
			return m, false
		}
	}
	return m, true
}

// parameterSet records the parameters of an element. An element with a repeated parameter is
// malformed.
type parameterSet uint16

func (s *parameterSet) add(bit parameterSet) bool {
	if *s&bit != 0 {
		return false
	}
	*s |= bit
	return true
}

// set stores one parameter. It ignores unknown parameters, such as profile.
func (m *mediaRange) set(name, value string, seen *parameterSet) (ok bool) {
	switch strings.ToLower(name) {
	case "q":
		m.weight, ok = parseWeight(value)
		return ok && seen.add(1)
	case "as":
		m.as = value
		return seen.add(2)
	case "g":
		m.group = value
		return seen.add(4)
	case "v":
		m.version = value
		return seen.add(8)
	case "stream":
		m.stream = value
		return seen.add(16)
	case "charset":
		m.charset = value
		return seen.add(32)
	case "pretty":
		m.pretty = value == "1" || strings.EqualFold(value, "true")
		return seen.add(64)
	case "managedfields":
		m.unmanaged = strings.EqualFold(value, "omit")
		return seen.add(128)
	}
	return true
}

// parseWeight parses a weight in thousandths. It ignores digits after the third.
func parseWeight(s string) (thousandths int, ok bool) {
	whole, fraction, dotted := strings.Cut(s, ".")
	if whole != "0" && whole != "1" && (whole != "" || fraction == "") || dotted && !digits(fraction) {
		return 0, false
	}
	if whole == "1" {
		if strings.Trim(fraction, "0") != "" {
			return 0, false
		}
		return weightUnit, true
	}
	unit := weightUnit / 10
	for i := 0; i < len(fraction) && i < 3; i++ {
		thousandths += int(fraction[i]-'0') * unit
		unit /= 10
	}
	return thousandths, true
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// token reports whether s is a token (RFC 9110, section 5.6.2).
func token(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}

// unquote returns the value of a parameter: a token, or a quoted string without quotes and escapes.
func unquote(s string) (value string, ok bool) {
	if s == "" || s[0] != '"' {
		return s, token(s)
	}
	if len(s) < 2 || s[len(s)-1] != '"' {
		return "", false
	}
	s = s[1 : len(s)-1]
	if strings.IndexByte(s, '\\') < 0 {
		return s, strings.IndexByte(s, '"') < 0
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			return "", false
		case '\\':
			if i++; i == len(s) {
				return "", false
			}
		}
		b.WriteByte(s[i])
	}
	return b.String(), true
}
