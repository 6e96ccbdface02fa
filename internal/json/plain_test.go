package json

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

// plainByBytes is what plain means, one byte at a time.
func plainByBytes(text []byte) int {
	for i, c := range text {
		if c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return i
		}
	}
	return len(text)
}

// TestPlain puts every byte at every place of a word, below and above bytes that a borrow could reach.
func TestPlain(t *testing.T) {
	for _, around := range []byte{' ', '!', '#', '[', ']', 0x7f, 'a', '"', 0x00, 0x80, 0xff} {
		for length := range 20 {
			for at := range length {
				for c := range 256 {
					text := []byte(strings.Repeat("a", length))
					for i := at + 1; i < length; i++ {
						text[i] = around
					}
					text[at] = byte(c)
					if got, want := plain(text), plainByBytes(text); got != want {
						t.Fatalf("plain(%q) = %d, want %d", text, got, want)
					}
				}
			}
		}
	}
	assert.Zero(t, plain(nil))
}

// FuzzPlain compares plain with the loop over bytes, and the length of a text with where it ends.
func FuzzPlain(f *testing.F) {
	for _, seed := range []string{"", "lorem ipsum dolor", "abcdefg\"", "abcdefgh\\", "1234567é", "\x1f234567890", "12345678\x7f"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, want := plain(text), plainByBytes(text); got != want {
			t.Fatalf("plain(%q) = %d, want %d", text, got, want)
		}
	})
}
