package driver

import (
	"bufio"
	"bytes"
	"errors"
)

// lines reads the frames of a watch.
type lines struct {
	r    *bufio.Reader
	long []byte
}

func newLines(r *bufio.Reader) *lines { return &lines{r: r} }

// next returns a line of any length. It is valid until the next call.
func (l *lines) next() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	l.long = l.long[:0]
	for {
		l.long = append(l.long, line...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return l.long, err
		}
		line, err = l.r.ReadSlice('\n')
	}
}

// kindOf returns the type of a watch event, its first field.
func kindOf(event []byte) string {
	_, after, _ := bytes.Cut(event[:min(len(event), 64)], []byte(`"type":"`))
	kind, _, _ := bytes.Cut(after, []byte(`"`))
	return string(kind)
}
