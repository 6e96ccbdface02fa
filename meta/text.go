package meta

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxQuoted limits how much of a client's input an error repeats.
const maxQuoted = 80

// quoteShort quotes s for an error message, cut after maxQuoted bytes.
func quoteShort(s string) string {
	if len(s) <= maxQuoted {
		return strconv.Quote(s)
	}
	return strconv.Quote(s[:maxQuoted]) + "…"
}

var errNotString = errors.New("not a JSON string")

// unquoteJSON returns the text of a JSON string. It exists because this package avoids a JSON
// library. The strings it sees are times and durations, which rarely contain an escape.
func unquoteJSON(b []byte) (string, error) {
	if len(b) < 2 || b[0] != '"' || b[len(b)-1] != '"' {
		return "", errNotString
	}
	b = b[1 : len(b)-1]
	if !utf8.Valid(b) {
		return "", errNotString
	}
	var out strings.Builder
	out.Grow(len(b))
	for i := 0; i < len(b); {
		switch c := b[i]; {
		case c < ' ' || c == '"':
			return "", errNotString
		case c != '\\':
			out.WriteByte(c)
			i++
		default:
			r, n := unescapeJSON(b[i:])
			if n == 0 {
				return "", errNotString
			}
			out.WriteRune(r)
			i += n
		}
	}
	return out.String(), nil
}

// unescapeJSON reads the escape at the start of b. n is its length, or 0 if there is none. An
// unpaired surrogate becomes the replacement character.
func unescapeJSON(b []byte) (r rune, n int) {
	if len(b) < 2 {
		return 0, 0
	}
	if b[1] != 'u' {
		const from, to = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
		i := strings.IndexByte(from, b[1])
		if i < 0 {
			return 0, 0
		}
		return rune(to[i]), 2
	}
	high, ok := hex4(b[2:])
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(high) {
		return high, 6
	}
	if len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
		if low, ok := hex4(b[8:]); ok {
			if r := utf16.DecodeRune(high, low); r != utf8.RuneError {
				return r, 12
			}
		}
	}
	return utf8.RuneError, 6
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	v, err := strconv.ParseUint(string(b[:4]), 16, 16)
	return rune(v), err == nil
}
