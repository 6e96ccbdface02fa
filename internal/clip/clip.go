package clip

import (
	"strings"
	"unicode/utf8"
)

// Text returns at most most bytes of s, for a message. An ellipsis shows that the rest is missing,
// and the result is valid UTF-8 then.
func Text(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// Prefix returns at most most bytes of s and does not divide a character.
func Prefix(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
