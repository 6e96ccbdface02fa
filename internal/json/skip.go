package json

import "bytes"

// SkipValue returns the end of the value that begins at a position of data. It is for JSON that has
// been validated: it looks only for the end of the value. If there is none, ok is false and end is
// where the text is damaged.
func SkipValue(data []byte, at int) (end int, ok bool) {
	depth := 0
	for end = at; end < len(data); end++ {
		switch data[end] {
		case '"':
			if end, ok = SkipText(data, end); !ok {
				return end, false
			}
			if depth == 0 {
				return end, true
			}
			end--
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return end, end > at // the end of the enclosing object or array
			}
			if depth--; depth == 0 {
				return end + 1, true
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return end, end > at
			}
		}
	}
	return end, false
}

// SkipText is [SkipValue] for a string: data has a quotation mark at the position.
func SkipText(data []byte, at int) (end int, ok bool) {
	for end = at + 1; ; {
		next := bytes.IndexByte(data[end:], '"')
		if next < 0 {
			return len(data), false
		}
		end += next + 1
		escapes := 0
		for quote := end - 1; quote-1-escapes > at && data[quote-1-escapes] == '\\'; {
			escapes++
		}
		if escapes%2 == 0 {
			return end, true
		}
	}
}
