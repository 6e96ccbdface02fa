package json

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
	"unsafe"
)

// plain returns how many bytes at the start of text are ASCII and stand for themselves in JSON. The
// next one, if there is one, is a quotation mark, a backslash, a control character or a part of a
// longer character. It looks at eight bytes at once: most of a document is text.
func plain(text []byte) int {
	const (
		each = 0x0101010101010101
		high = 0x8080808080808080
	)
	i := 0
	for ; len(text)-i >= 8; i += 8 {
		w := binary.LittleEndian.Uint64(text[i:])
		quote, backslash := w^('"'*each), w^('\\'*each)
		// The top bit of a byte in a difference is set where the byte was less than what is subtracted.
		// It may be set wrongly only above such a byte, and the lowest one counts. A byte that is not
		// ASCII keeps it in the first or the second difference.
		stops := ((quote - each) | (backslash - each) | (w - ' '*each)) & high
		if stops != 0 {
			return i + bits.TrailingZeros64(stops)/8
		}
	}
	for ; i < len(text); i++ {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return i
		}
	}
	return i
}

// bytesOf returns text as bytes, without a copy. The caller must not modify them.
func bytesOf(text string) []byte { return unsafe.Slice(unsafe.StringData(text), len(text)) }
