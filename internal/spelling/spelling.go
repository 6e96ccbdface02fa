package spelling

import "strings"

// Of returns what all spellings of a name have in common: lower case with hyphens.
func Of(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }

// Begins reports whether a name begins with what Of returned, in whichever spelling. It allocates
// nothing.
func Begins(name, prefix string) bool {
	if len(name) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		c := name[i]
		switch {
		case c == '_':
			c = '-'
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		}
		if c != prefix[i] {
			return false
		}
	}
	return true
}
