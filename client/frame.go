package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// frames reads the documents of a stream, one to a line, each within a bound.
type frames struct {
	from  *bufio.Reader
	limit int64
	line  []byte // reused while it is small
}

// keptLine is how much room for a line outlives it.
const keptLine = 64 << 10

func newFrames(r io.Reader, limit int64) *frames {
	return &frames{from: bufio.NewReaderSize(r, 16<<10), limit: limit}
}

// next returns the next document, which is good until the next call. A line that the end of the
// stream cut short is none: the stream ends before it.
func (f *frames) next() ([]byte, error) {
	for {
		if cap(f.line) > keptLine {
			f.line = nil
		}
		f.line = f.line[:0]
		for {
			part, err := f.from.ReadSlice('\n')
			f.line = append(f.line, part...)
			switch {
			case int64(len(f.line)) > f.limit:
				return nil, errTooLong{f.limit}
			case err == nil:
			case errors.Is(err, bufio.ErrBufferFull):
				continue
			default:
				return nil, err
			}
			break
		}
		if line := bytes.TrimSpace(f.line); len(line) > 0 {
			return line, nil
		}
	}
}
