package spelling

// Of returns what all spellings of a name have in common: lower case, with a hyphen for every other
// character that is no letter and no digit.
func Of(name string) string {
	out := []byte(name)
	for i, c := range out {
		out[i] = common(c)
	}
	return string(out)
}

func common(c byte) byte {
	switch {
	case 'a' <= c && c <= 'z' || '0' <= c && c <= '9':
		return c
	case 'A' <= c && c <= 'Z':
		return c + 'a' - 'A'
	}
	return '-'
}

// Begins reports whether a name begins with what Of returned, in whichever spelling. It allocates
// nothing.
func Begins(name, prefix string) bool {
	if len(name) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		if common(name[i]) != prefix[i] {
			return false
		}
	}
	return true
}
