package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// frames reads the documents of a stream, one per line, each of limited size.
type frames struct {
	from  *bufio.Reader
	limit int64
	line  []byte // reused while it is small
}

// keptLine is the largest buffer that is kept for the next line.
const keptLine = 64 << 10

func newFrames(r io.Reader, limit int64) *frames {
	return &frames{from: bufio.NewReaderSize(r, 16<<10), limit: limit}
}

// next returns the next document, which is valid until the next call. It discards an incomplete
// last line.
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
