package kindwright

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/kindwright/kindwright/internal/request"
)

// response records in the exchange how the request was answered. It is the only wrapper around the
// connection's own writer.
type response struct {
	http.ResponseWriter
	exchange  request.Exchange
	recording *recording // nil if nothing is recorded

	last     bool      // the connection ends with the answer, unless it changes the protocol
	hijacked bool      // a handler has taken the connection over
	common   [3]string // the values of the headers that every answer has
	random   [48]byte  // room for an id
}

// newResponse returns an empty response, with its recording in the same piece of memory if there is one.
func (s *Server) newResponse() *response {
	if s.audit == nil {
		return &response{}
	}
	both := &struct {
		response
		room recording
	}{}
	both.recording = &both.room
	return &both.response
}

// begin records the beginning of an answer.
//
// If the client asked to change the protocol and the answer does not, the connection ends with the
// answer. What the client sends next may be meant for the other protocol, and a proxy between the
// two may believe that its client speaks it (H11).
//
// It also ends after a request in chunks. If the client sent a Content-Length as well, net/http has
// removed it, and a proxy in between may have found another end of the body than net/http (H6).
//
// The audit log gets its record first.
func (w *response) begin(code int) {
	if !w.exchange.Code.CompareAndSwap(0, int32(code)) { //nolint:gosec // three digits
		return
	}
	w.exchange.Body.Decoded()
	if w.exchange.Begun != nil {
		w.exchange.Begun()
	}
	if w.last && code != http.StatusSwitchingProtocols {
		w.Header().Set("Connection", "close")
	}
	if w.recording != nil {
		w.recording.begins()
	}
}

// WriteHeader records the beginning of the answer. A code of the 100s announces another answer,
// except for the change of the protocol.
func (w *response) WriteHeader(code int) {
	if code >= http.StatusOK || code == http.StatusSwitchingProtocols {
		w.begin(code)
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write sends a part of the answer.
func (w *response) Write(p []byte) (int, error) {
	w.begin(http.StatusOK)
	began := w.clock()
	n, err := w.ResponseWriter.Write(p)
	w.wrote(began)
	w.exchange.Bytes.Add(int64(n))
	return n, err
}

// clock returns the time if the audit log or a tracer may want to know how long it takes to send something.
func (w *response) clock() (now time.Time) {
	if w.recording.asks() || w.exchange.Span() != nil {
		now = time.Now()
	}
	return now
}

// wrote adds the time since a clock to that of the answer.
func (w *response) wrote(began time.Time) {
	if !began.IsZero() {
		w.exchange.Spend(request.Writing, time.Since(began))
	}
}

// ReadFrom sends what it reads, as the connection's own writer can do without a copy.
func (w *response) ReadFrom(from io.Reader) (int64, error) {
	to, ok := w.ResponseWriter.(io.ReaderFrom)
	if !ok {
		return io.Copy(struct{ io.Writer }{w}, from)
	}
	w.begin(http.StatusOK)
	began := w.clock()
	n, err := to.ReadFrom(from)
	w.wrote(began)
	w.exchange.Bytes.Add(n)
	return n, err
}

// Flush sends what was written.
func (w *response) Flush() { _ = w.FlushError() }

// FlushError is Flush with its error.
func (w *response) FlushError() error {
	w.begin(http.StatusOK)
	began := w.clock()
	err := http.NewResponseController(w.ResponseWriter).Flush()
	w.wrote(began)
	return err
}

// Hijack takes over the connection.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.hijacked = true
	counted := &takenOver{Conn: conn, exchange: &w.exchange, recording: w.recording}
	rw.Writer.Reset(counted) // nothing has been written to it
	return counted, rw, nil
}

// Unwrap gives http.ResponseController the connection's own writer.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// takenOver is a connection that changed its protocol. It counts in the exchange what is written to
// it.
type takenOver struct {
	net.Conn
	exchange  *request.Exchange
	recording *recording // nil if nothing is recorded
}

// Write sends bytes. The first ones are the head of the answer: it has begun as any other.
func (c *takenOver) Write(p []byte) (int, error) {
	if c.exchange.Code.Load() == 0 {
		c.exchange.Code.Store(codeOf(p))
		if c.exchange.Begun != nil {
			c.exchange.Begun()
		}
		if c.recording != nil {
			c.recording.begins()
		}
	}
	n, err := c.Conn.Write(p)
	c.exchange.Bytes.Add(int64(n))
	return n, err
}

// CloseWrite tells the client that no more bytes follow, if the connection supports it.
func (c *takenOver) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return http.ErrNotSupported
}

// codeOf reads the code from the head of an answer. It returns 0 if there is no code.
func codeOf(head []byte) int32 {
	const version, digits = len("HTTP/1.1 "), 3
	if len(head) < version+digits || !bytes.HasPrefix(head, []byte("HTTP/")) {
		return 0
	}
	code, err := strconv.ParseInt(string(head[version:version+digits]), 10, 32)
	if err != nil {
		return 0
	}
	return int32(code)
}
