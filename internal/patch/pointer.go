package patch

import (
	"strconv"
	"strings"
)

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

// looksLikeIndex reports whether a token is a number that the library takes for an index, although
// RFC 6901 does not: "01", "+0", "-1". With fromEnd, "-1" is an index.
func looksLikeIndex(token string, fromEnd bool) bool {
	digits := strings.TrimLeft(token, "+-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return false
	}
	if n, err := strconv.Atoi(token); fromEnd && err == nil && n < 0 && strconv.Itoa(n) == token {
		return false
	}
	return digits != token || len(digits) > 1 && digits[0] == '0'
}

// oddIndexes returns the pointers to what contains the tokens that only look like an index.
func oddIndexes(pointer string, fromEnd bool) (containers []string) {
	at := 0
	for i, token := range strings.Split(pointer, "/") {
		if i > 0 && looksLikeIndex(token, fromEnd) {
			containers = append(containers, pointer[:at-1])
		}
		at += len(token) + 1
	}
	return containers
}

// refersToList reports whether a pointer refers to a list.
func refersToList(tree any, pointer string) bool {
	for i, token := range strings.Split(pointer, "/") {
		if i == 0 {
			continue // in front of the first slash
		}
		switch at := tree.(type) {
		case map[string]any:
			tree = at[unescaped.Replace(token)]
		case []any:
			n, err := strconv.Atoi(token)
			if err != nil || n < 0 || n >= len(at) {
				return false // the library says so
			}
			tree = at[n]
		default:
			return false
		}
	}
	_, list := tree.([]any)
	return list
}

// lacks reports whether a pointer names a member of an object in tree that this object does not have.
func lacks(tree any, pointer string) bool {
	tokens := strings.Split(pointer, "/")[1:]
	for i, token := range tokens {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		switch t := tree.(type) {
		case map[string]any:
			v, ok := t[token]
			if !ok {
				return i == len(tokens)-1
			}
			tree = v
		case []any:
			n, err := strconv.Atoi(token)
			if err != nil || n < 0 || n >= len(t) {
				return false
			}
			tree = t[n]
		default:
			return false
		}
	}
	return false
}
