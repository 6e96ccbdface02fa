package tables

import (
	"strings"
	"unicode/utf8"
)

// folded is what a long range counts where the case of letters is ignored: it takes milliseconds.
const folded = 8

// In returns an upper bound of the tables in a pattern. What is escaped or quoted can be counted too.
func In(pattern string) int {
	n := strings.Count(pattern, `\p`) + strings.Count(pattern, `\P`)
	if !strings.Contains(pattern, "-") || !ignoresCase(pattern) {
		return n
	}
	for rest := pattern; ; {
		_, after, found := strings.Cut(rest, "-")
		if !found {
			return n
		}
		if strings.HasPrefix(after, `\x{`) || after != "" && after[0] >= utf8.RuneSelf {
			n += folded
		}
		rest = after
	}
}

// ignoresCase reports whether a group of flags has an i.
func ignoresCase(pattern string) bool {
	for rest := pattern; ; {
		_, after, found := strings.Cut(rest, "(?")
		if !found {
			return false
		}
		flags := after
		if end := strings.IndexAny(after, ":)<"); end >= 0 {
			flags = after[:end]
		}
		if strings.Contains(flags, "i") {
			return true
		}
		rest = after
	}
}
