package apitest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/protobuf"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// errOver ends a stream in order.
var errOver = errors.New("the stream is over")

// point is an action on a stream after some events: right after them, or before the next one. An
// error ends the stream.
type point struct {
	after  func(f *frames) error
	before func(f *frames, frame []byte) error
}

// frames is the writer of a watch. It splits the stream into events: lines of JSON, or protobuf
// messages with their lengths.
type frames struct {
	http.ResponseWriter
	call  *faultCall
	point point
	left  int // events before the point

	code    int
	rest    []byte // an incomplete frame
	reached bool
	err     error // why nothing more is sent
}

// WriteHeader records whether the response is a stream.
func (f *frames) WriteHeader(code int) {
	f.code = code
	f.ResponseWriter.WriteHeader(code)
}

// Write sends the complete frames.
func (f *frames) Write(p []byte) (int, error) {
	if f.code != 0 && f.code != http.StatusOK {
		return f.ResponseWriter.Write(p)
	}
	f.rest = append(f.rest, p...)
	for f.err == nil {
		n := f.length()
		if n == 0 {
			return len(p), nil
		}
		frame := f.rest[:n]
		f.rest = f.rest[n:]
		f.err = f.frame(frame)
	}
	return 0, f.err
}

// FlushError flushes the writer. A stream begins with a flush.
func (f *frames) FlushError() error {
	if f.err != nil {
		return f.err
	}
	if err := f.flush(); err != nil {
		return err
	}
	if f.left == 0 && f.code == http.StatusOK {
		f.err = f.reach()
	}
	return f.err
}

// SetWriteDeadline does nothing: the handler must not notice the delay.
func (f *frames) SetWriteDeadline(time.Time) error { return nil }

// Unwrap gives http.ResponseController the connection's own writer.
func (f *frames) Unwrap() http.ResponseWriter { return f.ResponseWriter }

func (f *frames) send(p []byte) error {
	_, err := f.ResponseWriter.Write(p)
	return err
}

func (f *frames) flush() error { return http.NewResponseController(f.ResponseWriter).Flush() }

// reach is called when the last event before the point has been sent.
func (f *frames) reach() error {
	if f.reached || f.point.after == nil {
		return nil
	}
	f.reached = true
	if err := f.flush(); err != nil {
		return err
	}
	return f.point.after(f)
}

func (f *frames) frame(frame []byte) error {
	if f.left == 0 && f.point.before != nil {
		if err := f.flush(); err != nil { // send the events before the point, even if all came in one piece
			return err
		}
		return f.point.before(f, frame)
	}
	if err := f.send(frame); err != nil {
		return err
	}
	if f.left > 0 && !f.isBookmark(frame) {
		f.left--
	}
	if f.left == 0 {
		return f.reach()
	}
	return nil
}

// binary reports whether the frames are protobuf.
func (f *frames) binary() bool { return strings.Contains(f.Header().Get("Content-Type"), "protobuf") }

// lengthBytes is the size of the length before a message.
const lengthBytes = 4

// length returns the length of the first frame, or 0 if it is incomplete.
func (f *frames) length() int {
	if !f.binary() {
		return bytes.IndexByte(f.rest, '\n') + 1
	}
	if len(f.rest) < lengthBytes {
		return 0
	}
	if n := lengthBytes + int(binary.BigEndian.Uint32(f.rest)); n <= len(f.rest) {
		return n
	}
	return 0
}

// isBookmark reports whether a frame is a bookmark. It looks only at the place of the type.
func (f *frames) isBookmark(frame []byte) bool {
	head := frame[:min(len(frame), 64)]
	return bytes.Contains(head, []byte(`"type":"`+meta.Bookmark+`"`)) || f.binary() && bytes.Contains(head, []byte("\x08"+meta.Bookmark))
}

// errorFrame returns an ERROR event.
func (f *frames) errorFrame(e *status.Error) []byte {
	document, err := json.Marshal(e.Status())
	if err != nil {
		return nil
	}
	if f.binary() {
		if d, ok, err := protobuf.Describe(reflect.TypeFor[meta.Status]()); err == nil && ok {
			frame, _ := d.AppendEvent(nil, meta.Error, "v1", "Status", document)
			return frame
		}
	}
	frame := append([]byte(`{"type":"`+meta.Error+`","object":`), document...)
	return append(frame, '}', '\n')
}
