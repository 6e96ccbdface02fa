package json

import "strings"

// EscapeHTML returns JSON with the escapes that package encoding/json makes by default: of <, > and &, and
// of the separators U+2028 and U+2029.
func EscapeHTML(text string) string {
	if !strings.ContainsAny(text, "<>&") && !strings.Contains(text, "\u2028") && !strings.Contains(text, "\u2029") {
		return text
	}
	return strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`, "\u2028", `\u2028`, "\u2029", `\u2029`).Replace(text)
}
