package kindwright

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strconv"

	"github.com/kindwright/kindwright/internal/request"
)

// response tells the exchange how the request was answered. It is the one wrapper around the
// connection's own writer.
type response struct {
	http.ResponseWriter
	exchange request.Exchange
	last     bool      // the connection ends with the answer, unless it changes the protocol
	hijacked bool      // somebody has taken the connection over
	common   [3]string // the values of the headers that every answer has
	random   [48]byte  // room to make an id in
}

// begin notes the beginning of an answer.
//
// The connection ends with an answer that does not change the protocol although the client asked
// for that. What the client sends next may be meant for the other protocol, and a proxy on the way
// may think that its client speaks that (H11).
func (w *response) begin(code int) {
	if w.exchange.Code() != 0 {
		return
	}
	w.exchange.SetCode(code)
	if w.last && code != http.StatusSwitchingProtocols {
		w.Header().Set("Connection", "close")
	}
}

// finish is called when the handler has returned, or panicked.
func (w *response) finish(returned bool) {
	switch {
	case !returned:
		w.exchange.Abort()
	case !w.hijacked:
		w.begin(http.StatusOK) // which net/http is about to send
	}
}

// WriteHeader notes the beginning of the answer. Codes of the 100s announce another, but for the
// change of the protocol.
func (w *response) WriteHeader(code int) {
	if code >= http.StatusOK || code == http.StatusSwitchingProtocols {
		w.begin(code)
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write sends a part of the answer.
func (w *response) Write(p []byte) (int, error) {
	w.begin(http.StatusOK)
	n, err := w.ResponseWriter.Write(p)
	w.exchange.Wrote(int64(n))
	return n, err
}

// ReadFrom sends what it reads, as the connection's own writer can do without a copy.
func (w *response) ReadFrom(from io.Reader) (int64, error) {
	to, ok := w.ResponseWriter.(io.ReaderFrom)
	if !ok {
		return io.Copy(struct{ io.Writer }{w}, from)
	}
	w.begin(http.StatusOK)
	n, err := to.ReadFrom(from)
	w.exchange.Wrote(n)
	return n, err
}

// Flush sends what was written.
func (w *response) Flush() { _ = w.FlushError() }

// FlushError is Flush with its error.
func (w *response) FlushError() error {
	w.begin(http.StatusOK)
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack takes the connection over.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.hijacked = true
	counted := &takenOver{Conn: conn, exchange: &w.exchange}
	rw.Writer.Reset(counted) // nothing has been written to it
	return counted, rw, nil
}

// Unwrap gives http.ResponseController the connection's own writer.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// takenOver is a connection that changed its protocol. It tells the exchange what is written to it.
type takenOver struct {
	net.Conn
	exchange *request.Exchange
}

// Write sends bytes. The first are the head of the answer.
func (c *takenOver) Write(p []byte) (int, error) {
	if c.exchange.Code() == 0 {
		c.exchange.SetCode(codeOf(p))
	}
	n, err := c.Conn.Write(p)
	c.exchange.Wrote(int64(n))
	return n, err
}

// CloseWrite says that nothing more will be sent, where the connection can say so.
func (c *takenOver) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return http.ErrNotSupported
}

// codeOf reads the code from the head of an answer, 0 if it is none.
func codeOf(head []byte) int {
	const version, digits = len("HTTP/1.1 "), 3
	if len(head) < version+digits || !bytes.HasPrefix(head, []byte("HTTP/")) {
		return 0
	}
	code, err := strconv.Atoi(string(head[version : version+digits]))
	if err != nil {
		return 0
	}
	return code
}
