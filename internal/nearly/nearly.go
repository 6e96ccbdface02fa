package nearly

import "strings"

// maxName is the longest name that is compared. No known name is nearly as long.
const maxName = 100

// Name returns the known name that name was probably meant to be, or "". Two names are near if they
// have the same letters and digits, in any case, or if few letters differ. Names of up to three
// letters must have the same letters, because too many other words differ from them by one.
//
// A name that is known is not near to any other.
func Name(name string, known []string) string {
	letters, best, least := Letters(name), "", tooFar
	if letters == "" || len(letters) > maxName {
		return ""
	}
	for _, k := range known {
		if k == name {
			return ""
		}
		wanted := Letters(k)
		if d := Distance(letters, wanted); d < least && d <= allowed(len(wanted)) {
			best, least = k, d
		}
	}
	return best
}

func allowed(length int) int {
	switch {
	case length > 6:
		return 2
	case length > 3:
		return 1
	}
	return 0
}

// Letters returns the letters and digits of ASCII in s, in lower case.
func Letters(s string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
			return c
		case 'A' <= c && c <= 'Z':
			return c - 'A' + 'a'
		}
		return -1
	}, s)
}

// tooFar is more than any caller accepts.
const tooFar = 3

// Distance counts the bytes to insert, delete, replace or swap with a neighbour. It returns 3 at
// once if the lengths differ by 3 or more, since callers do not distinguish larger distances.
func Distance(a, b string) int {
	if d := len(a) - len(b); d >= tooFar || -d >= tooFar {
		return tooFar
	}
	before, previous, current := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(a); i++ {
		current[0] = i
		for j := 1; j <= len(b); j++ {
			replaced := previous[j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			current[j] = min(previous[j]+1, current[j-1]+1, replaced)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				current[j] = min(current[j], before[j-2]+1)
			}
		}
		before, previous, current = previous, current, before
	}
	return previous[len(b)]
}
