package patch

import "strings"

// pointerDepth validates the syntax of a JSON pointer (RFC 6901) and returns the number of its
// tokens.
func pointerDepth(pointer string) (tokens int, ok bool) {
	if pointer == "" {
		return 0, true
	}
	if pointer[0] != '/' {
		return 0, false
	}
	for i := 0; i < len(pointer); i++ {
		switch pointer[i] {
		case '/':
			tokens++
		case '~':
			if i+1 == len(pointer) || pointer[i+1] != '0' && pointer[i+1] != '1' {
				return 0, false
			}
		}
	}
	return tokens, true
}

// problemOf returns why a well-formed pointer can never refer to a place in an object, or "".
//
// An empty token refers to the member with the empty name, but the library takes it for the whole
// document. The top level is always an object, so "/-", which means the end of a list, is always
// wrong.
func problemOf(pointer string) string {
	switch {
	case pointer == "/-":
		return "the object is not a list"
	case strings.HasSuffix(pointer, "/") || strings.Contains(pointer, "//"):
		return "a member with an empty name cannot be patched"
	}
	return ""
}

// within reports whether inner is a place inside of outer.
func within(inner, outer string) bool {
	return strings.HasPrefix(inner, outer) && len(inner) > len(outer) && inner[len(outer)] == '/'
}
