package meta

import (
	"fmt"
	"strings"
	"unicode"
)

// Limits of names and of what is attached to objects, in bytes (META-16, NAME-08, NAME-11).
const (
	MaxDNSSubdomain    = 253
	MaxDNSLabel        = 63
	MaxLabelValue      = 63
	MaxGenerateName    = 58     // a longer prefix is truncated before the suffix of five is added
	MaxAnnotationBytes = 262144 // sum of all keys and values of one object's annotations
)

// The checks in this file return "" for a valid string. Otherwise they return a phrase that
// completes "Invalid value: …: " and does not repeat the string. They take time linear in the
// string.

// CheckDNSSubdomain checks for lower-case letters, digits, '-' and '.', with a letter or digit at
// both ends of each dot-separated part, 253 bytes at most. This is the default rule for object
// names (RFC 1123).
func CheckDNSSubdomain(s string) string {
	if p := checkLength(s, MaxDNSSubdomain); p != "" {
		return p
	}
	for part := range strings.SplitSeq(s, ".") {
		if !isLabel(part, isLowerAlphanumeric) {
			return "must consist of lower-case letters, digits, '-' and '.', and each part between dots must start and end with a letter or digit (for example \"example.com\")"
		}
	}
	return ""
}

// CheckDNSLabel checks for lower-case letters, digits and '-', with a letter or digit at both ends,
// 63 bytes at most: the rule for namespaces (RFC 1123).
func CheckDNSLabel(s string) string {
	if p := checkLength(s, MaxDNSLabel); p != "" {
		return p
	}
	if !isLabel(s, isLowerAlphanumeric) {
		return "must consist of lower-case letters, digits and '-', and must start and end with a letter or digit (for example \"my-name\")"
	}
	return ""
}

// CheckDNS1035Label is [CheckDNSLabel] with a letter at the start: the rule for names that become
// host names (RFC 1035).
func CheckDNS1035Label(s string) string {
	if p := checkLength(s, MaxDNSLabel); p != "" {
		return p
	}
	if !isLabel(s, isLowerAlphanumeric) || isDigit(s[0]) {
		return "must consist of lower-case letters, digits and '-', must start with a letter and end with a letter or digit (for example \"my-name\")"
	}
	return ""
}

// CheckPathSegment checks that a name can be one segment of a URL path. Every name must pass it,
// whatever else its kind allows. Source: NAME-11.
func CheckPathSegment(s string) string {
	switch {
	case s == "":
		return "must not be empty"
	case s == "." || s == "..":
		return fmt.Sprintf("must not be %q", s)
	case strings.ContainsRune(s, '/'):
		return "must not contain '/'"
	case strings.ContainsRune(s, '%'):
		return "must not contain '%'"
	case strings.ContainsFunc(s, unicode.IsControl):
		return "must not contain control characters"
	case len(s) > maxPathSegment:
		return fmt.Sprintf("must be no more than %d bytes", maxPathSegment)
	}
	return ""
}

// maxPathSegment keeps the keys of objects within what a store accepts.
const maxPathSegment = 1024

// CheckLabelKey checks a label key; the rule is [CheckQualifiedName]'s.
func CheckLabelKey(s string) string { return CheckQualifiedName(s) }

// CheckAnnotationKey checks an annotation key: as [CheckQualifiedName], but the prefix may have
// upper-case letters.
func CheckAnnotationKey(s string) string {
	prefix, name, prefixed := strings.Cut(s, "/")
	if !prefixed || len(prefix) > MaxDNSSubdomain {
		return CheckQualifiedName(s)
	}
	// ASCII only: strings.ToLower turns the Kelvin sign, which no DNS name contains, into 'k'.
	lower := []byte(prefix)
	for i, c := range lower {
		if 'A' <= c && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		}
	}
	return CheckQualifiedName(string(lower) + "/" + name)
}

// CheckLabelValue checks a label value: empty, or up to 63 letters, digits, '-', '_' and '.', with
// a letter or digit at both ends.
func CheckLabelValue(s string) string {
	if s == "" {
		return ""
	}
	if p := checkLength(s, MaxLabelValue); p != "" {
		return p
	}
	if !isQualifiedPart(s) {
		return "must be empty or consist of letters, digits, '-', '_' and '.', and must start and end with a letter or digit (for example \"my.value\")"
	}
	return ""
}

// CheckQualifiedName checks an optional DNS subdomain and '/', then a name of 1 to 63 letters,
// digits, '-', '_' and '.' with a letter or digit at both ends. Label keys, finalizers and
// condition types have this form.
func CheckQualifiedName(s string) string {
	prefix, name, prefixed := strings.Cut(s, "/")
	if !prefixed {
		name = s
	} else if p := CheckDNSSubdomain(prefix); p != "" {
		return "the part before '/' " + p
	}
	if p := checkLength(name, MaxLabelValue); p != "" {
		return "the name part " + p
	}
	if !isQualifiedPart(name) {
		return "the name part must consist of letters, digits, '-', '_' and '.', and must start and end with a letter or digit (for example \"my.name\" or \"example.com/my-name\")"
	}
	return ""
}

// AnnotationBytes returns the size that [MaxAnnotationBytes] limits.
func AnnotationBytes(annotations map[string]string) int {
	n := 0
	for k, v := range annotations {
		n += len(k) + len(v)
	}
	return n
}

func checkLength(s string, limit int) string {
	if s == "" {
		return "must not be empty"
	}
	if len(s) > limit {
		return fmt.Sprintf("must be no more than %d bytes", limit)
	}
	return ""
}

// isLabel reports whether s consists of characters that satisfy end, with '-' allowed in between.
func isLabel(s string, end func(byte) bool) bool {
	if s == "" || !end(s[0]) || !end(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if !end(s[i]) && s[i] != '-' {
			return false
		}
	}
	return true
}

func isQualifiedPart(s string) bool {
	if s == "" || !isAlphanumeric(s[0]) || !isAlphanumeric(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isAlphanumeric(c) && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

func isDigit(c byte) bool             { return '0' <= c && c <= '9' }
func isLowerAlphanumeric(c byte) bool { return isDigit(c) || 'a' <= c && c <= 'z' }
func isAlphanumeric(c byte) bool      { return isLowerAlphanumeric(c) || 'A' <= c && c <= 'Z' }
