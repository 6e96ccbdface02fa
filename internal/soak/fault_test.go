package soak

import (
	"bufio"
	"bytes"
	"io"
)

// fault is a wire that damages one event of each watch of one question.
type fault struct {
	question int
	at       int // which event, from 0
	spoil    func(event, next []byte) [][]byte
}

// body is a stream as the wire delivers it.
func (f *fault) body(w *watcher, r io.Reader) io.Reader {
	if f == nil || w.number != f.question {
		return r
	}
	return &wire{fault: f, from: bufio.NewReader(r)}
}

// wire forwards line by line.
type wire struct {
	*fault
	from  *bufio.Reader
	lines int
	ready bytes.Buffer
}

// Read implements io.Reader.
func (w *wire) Read(p []byte) (int, error) {
	for w.ready.Len() == 0 {
		event, err := w.event()
		if err != nil {
			return 0, err
		}
		if w.lines != w.at+1 {
			w.ready.Write(event)
			continue
		}
		next, err := w.event()
		if err != nil {
			return 0, err
		}
		for _, line := range w.spoil(event, next) {
			w.ready.Write(line)
		}
	}
	return w.ready.Read(p)
}

// event reads the next event. It forwards any bookmarks before it.
func (w *wire) event() ([]byte, error) {
	for {
		line, err := w.from.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		if !bytes.HasPrefix(line, []byte(`{"type":"BOOKMARK"`)) {
			w.lines++
			return line, nil
		}
		w.ready.Write(line)
	}
}
