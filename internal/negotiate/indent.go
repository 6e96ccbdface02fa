package negotiate

import (
	"bytes"
	"io"
)

// maxIndent is the number of levels that are indented. Deeper levels get no further indentation.
// Otherwise a small document with deep nesting would become a thousand times longer.
const maxIndent = 32

// An indenter adds line breaks and two spaces per level to JSON. It works on a stream in chunks of
// any size. It does not check the syntax.
type indenter struct {
	to     io.Writer
	buf    []byte
	depth  int
	opened bool // the last byte opened an object or array, which may turn out to be empty
	text   bool // inside a string
	escape bool // after a backslash in a string
}

// Write writes p indented. It returns len(p) unless the underlying writer fails.
func (in *indenter) Write(p []byte) (int, error) {
	in.buf = in.buf[:0]
	for i := 0; i < len(p); i++ {
		if in.text {
			n := in.copyText(p[i:])
			i += n - 1
			continue
		}
		in.structure(p[i])
		if len(in.buf) >= flushAt {
			if err := in.flush(); err != nil {
				return 0, err
			}
		}
	}
	if err := in.flush(); err != nil {
		return 0, err
	}
	return len(p), nil
}

// flushAt is the number of bytes to collect before writing them.
const flushAt = 32 << 10

func (in *indenter) flush() error {
	_, err := in.to.Write(in.buf)
	in.buf = in.buf[:0]
	return err
}

// copyText copies the rest of a string, or as much of it as p contains, and returns the number of
// bytes consumed.
func (in *indenter) copyText(p []byte) int {
	n := 0
	if in.escape {
		in.escape = false
		n = 1
	}
	for {
		next := bytes.IndexAny(p[n:], `"\`)
		if next < 0 {
			n = len(p)
			break
		}
		n += next + 1
		if p[n-1] == '"' {
			in.text = false
			break
		}
		if n == len(p) {
			in.escape = true
			break
		}
		n++ // the escaped character
	}
	in.buf = append(in.buf, p[:n]...)
	return n
}

func (in *indenter) structure(c byte) {
	switch c {
	case ' ', '\t', '\r', '\n':
		return
	case '}', ']':
		in.depth--
		if !in.opened {
			in.newline()
		}
		in.opened = false
		in.buf = append(in.buf, c)
		return
	}
	if in.opened {
		in.newline()
		in.opened = false
	}
	in.buf = append(in.buf, c)
	switch c {
	case '{', '[':
		in.depth++
		in.opened = true
	case ',':
		in.newline()
	case ':':
		in.buf = append(in.buf, ' ')
	case '"':
		in.text = true
	}
}

func (in *indenter) newline() {
	in.buf = append(in.buf, '\n')
	for range min(in.depth, maxIndent) {
		in.buf = append(in.buf, ' ', ' ')
	}
}
