package negotiate

import (
	"bytes"
	"io"
)

// maxIndent is the number of levels that are indented. Deeper ones are not indented further: otherwise a small document
// nested deeply would become a thousand times longer.
const maxIndent = 32

// An indenter writes JSON with line breaks and two blanks for each level. It works on a stream, whatever the pieces in
// which the document comes, and takes the syntax for granted.
type indenter struct {
	to     io.Writer
	buf    []byte
	depth  int
	opened bool // the last byte opened an object or array, of which it is not known yet whether it is empty
	text   bool // within a string
	escape bool // after a backslash within a string
}

// Write writes p indented. It returns len(p) unless the writer behind it failed.
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

// flushAt is how much is collected before it is passed on.
const flushAt = 32 << 10

func (in *indenter) flush() error {
	_, err := in.to.Write(in.buf)
	in.buf = in.buf[:0]
	return err
}

// copyText copies the rest of a string, or as much as there is, and returns how many bytes it took.
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
		n++ // what is escaped
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
