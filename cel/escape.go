package cel

import (
	"slices"
	"strings"
)

// reserved are the words of the language that cannot be identifiers.
var reserved = []string{
	"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop",
	"namespace", "null", "package", "return", "true", "var", "void", "while",
}

func isReserved(name string) bool {
	_, found := slices.BinarySearch(reserved, name)
	return found
}

// escape returns the identifier under which expressions reach a field. Names that cannot be
// identifiers are written with escapes: a-b as a__dash__b, namespace as __namespace__. It returns
// false for a name that expressions cannot reach.
// Source: CEL-12, CEL-13.
func escape(name string) (string, bool) {
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		return "", false
	}
	if isReserved(name) {
		return "__" + name + "__", true
	}
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c == '.':
			b.WriteString("__dot__")
		case c == '-':
			b.WriteString("__dash__")
		case c == '/':
			b.WriteString("__slash__")
		case c == '_' && i+1 < len(name) && name[i+1] == '_':
			b.WriteString("__underscores__")
			i++
		case c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			b.WriteByte(c)
		default:
			return "", false
		}
	}
	return b.String(), true
}

// unescape returns the name of the field that an identifier stands for.
func unescape(identifier string) (string, bool) {
	if !strings.Contains(identifier, "__") {
		return identifier, true
	}
	var b strings.Builder
	for i := 0; i < len(identifier); {
		word, ok := escaped(identifier[i:])
		if !ok {
			b.WriteByte(identifier[i])
			i++
			continue
		}
		i += len(word) + 4
		switch word {
		case "underscores":
			b.WriteString("__")
		case "dot":
			b.WriteByte('.')
		case "dash":
			b.WriteByte('-')
		case "slash":
			b.WriteByte('/')
		default:
			if !isReserved(word) || len(identifier) != len(word)+4 {
				return "", false
			}
			b.WriteString(word)
		}
	}
	return b.String(), true
}

// escaped returns the word of an escape such as __dash__ at the beginning of a text.
func escaped(text string) (word string, ok bool) {
	inner, ok := strings.CutPrefix(text, "__")
	end := strings.IndexByte(inner, '_')
	if !ok || end <= 0 || !strings.HasPrefix(inner[end:], "__") {
		return "", false
	}
	return inner[:end], true
}
