package client

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// heldBytes is the size of the response buffer. As on a connection, the client sees a smaller
// response only after a flush or the end, so a handler that forgets to flush a stream fails here
// too.
const heldBytes = 4 << 10

// answer is the http.ResponseWriter of one exchange. Only the handler's goroutine uses it.
type answer struct {
	exchange *exchange
	header   http.Header // the handler's; the client receives a copy
	head     http.Header // the copy, made by WriteHeader
	code     int         // 0 before WriteHeader
	length   int64       // declared by the handler, or -1
	held     []byte
	written  int64
	sent     bool // the client has the header
}

// Header returns the header to send.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader sets the code. As in net/http, a second call has no effect.
func (a *answer) WriteHeader(code int) {
	if code < 100 || code > 999 {
		panic(fmt.Sprintf("client: WriteHeader(%d): no such code", code)) // as net/http does: the handler has a bug
	}
	if a.code != 0 || code < 200 {
		return
	}
	a.code, a.head = code, a.header.Clone()
	if a.head == nil {
		a.head = make(http.Header)
	}
	if text := a.head.Get("Content-Length"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			a.head.Del("Content-Length")
			return
		}
		a.length = n
	}
}

// Write writes a piece of the body.
func (a *answer) Write(p []byte) (int, error) {
	if a.code == 0 {
		a.WriteHeader(http.StatusOK)
	}
	switch {
	case len(p) == 0:
		return 0, nil
	case !bodyAllowed(a.code):
		return 0, http.ErrBodyNotAllowed
	case a.length >= 0 && a.written+int64(len(p)) > a.length:
		return 0, http.ErrContentLength
	}
	a.written += int64(len(p))
	if !a.sent {
		a.sniff(p)
	}
	if a.isHead() {
		return len(p), nil
	}
	if len(a.held)+len(p) <= heldBytes {
		a.held = append(a.held, p...)
		return len(p), nil
	}
	if err := a.push(); err != nil {
		return 0, err
	}
	return a.exchange.pipe.Write(p)
}

// WriteString is Write for a string.
func (a *answer) WriteString(s string) (int, error) { return a.Write([]byte(s)) }

// Flush sends the buffered bytes.
func (a *answer) Flush() { _ = a.FlushError() }

// FlushError is Flush for http.ResponseController.
func (a *answer) FlushError() error {
	if a.code == 0 {
		a.WriteHeader(http.StatusOK)
	}
	return a.push()
}

// SetWriteDeadline bounds writes, for http.ResponseController.
func (a *answer) SetWriteDeadline(t time.Time) error {
	a.exchange.pipe.setDeadline(t)
	return nil
}

// SetReadDeadline does nothing: the body of the request is in the memory of the same process.
func (a *answer) SetReadDeadline(time.Time) error { return nil }

// EnableFullDuplex does nothing: reading and writing at once always works.
func (a *answer) EnableFullDuplex() error { return nil }

// push sends the header, if that is still to do, and the buffered bytes.
func (a *answer) push() error {
	a.sendHead()
	if len(a.held) == 0 {
		return nil
	}
	_, err := a.exchange.pipe.Write(a.held)
	a.held = a.held[:0]
	return err
}

// finish sends the rest once the handler has returned. A response that was never flushed has a
// known length.
func (a *answer) finish() {
	if a.code == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if !a.sent && a.length < 0 && bodyAllowed(a.code) && (!a.isHead() || a.written > 0) {
		a.length = a.written
		a.head.Set("Content-Length", strconv.FormatInt(a.written, 10))
	}
	_ = a.push() // the client may be gone
}

// short reports whether the body is shorter than declared.
func (a *answer) short() bool {
	return !a.isHead() && bodyAllowed(a.code) && a.length >= 0 && a.written < a.length
}

// sendHead gives the client its http.Response.
func (a *answer) sendHead() {
	if a.sent {
		return
	}
	a.sent = true
	if a.head.Get("Date") == "" {
		a.head.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	}
	res := a.exchange.response
	res.StatusCode, res.Status = a.code, strconv.Itoa(a.code)+" "+http.StatusText(a.code)
	res.Header, res.ContentLength = a.head, a.length
	switch {
	case a.isHead():
		res.Body = http.NoBody
		a.exchange.unhook()
	case !bodyAllowed(a.code):
		res.ContentLength = 0
	case a.length < 0:
		res.TransferEncoding = []string{"chunked"}
	}
	close(a.exchange.answered)
}

// sniff sets the Content-Type that net/http would.
func (a *answer) sniff(p []byte) {
	_, has := a.head["Content-Type"]
	if !has && a.head.Get("Content-Encoding") == "" {
		a.head.Set("Content-Type", http.DetectContentType(p))
	}
}

func (a *answer) isHead() bool { return a.exchange.request.Method == http.MethodHead }

func bodyAllowed(code int) bool {
	return code != http.StatusNoContent && code != http.StatusNotModified
}

var (
	_ http.ResponseWriter = (*answer)(nil)
	_ http.Flusher        = (*answer)(nil)
	_ io.StringWriter     = (*answer)(nil)
)
