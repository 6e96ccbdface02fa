package connect

import (
	"bufio"
	"crypto/sha1" //nolint:gosec // RFC 6455 names it; nothing secret depends on it
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/status"
)

// MessageKind is what a message of a WebSocket holds.
type MessageKind byte

// The kinds of messages.
const (
	TextMessage   MessageKind = 1
	BinaryMessage MessageKind = 2
)

// The other opcodes of frames (RFC 6455, 5.2).
const (
	continuation byte = 0
	closeFrame   byte = 8
	pingFrame    byte = 9
	pongFrame    byte = 10
)

// The codes that a WebSocket is closed with (RFC 6455, 7.4.1).
const (
	CloseNormal        = 1000
	CloseGoingAway     = 1001 // the server stops
	CloseProtocolError = 1002
	CloseInvalidData   = 1007
	ClosePolicy        = 1008
	CloseTooBig        = 1009
	CloseInternalError = 1011
	closeNoCode        = 1005 // is never sent
)

// CloseError is the end of a WebSocket, as the other side or a mistake of it brought it about.
type CloseError struct {
	Code   int // 1005 where the other side gave none
	Reason string
}

// Error names the code and the reason.
func (e *CloseError) Error() string {
	return fmt.Sprintf("the WebSocket was closed with code %d: %s", e.Code, strings.ToValidUTF8(e.Reason, "\uFFFD"))
}

// WebSocket is the server's side of a WebSocket (RFC 6455), without extensions. One goroutine may read and others may write at
// once.
type WebSocket struct {
	conn     net.Conn
	r        *bufio.Reader
	protocol string
	limit    int64

	mu     sync.Mutex // held while a frame is written
	closed bool       // a close frame was sent
}

// maxMessage is the longest message that is read unless a caller says otherwise.
const maxMessage = 1 << 20

// frameTimeout is how long a peer may take for one frame that it is sent.
const frameTimeout = 10 * time.Second

// AcceptWebSocket takes over the connection of a request that asks for a WebSocket. protocols are the subprotocols that the server speaks, the
// best first: one of those that the client names is chosen; where there are some and the client names none of them, the request is
// refused. The error is a 400; nothing has been sent then.
func AcceptWebSocket(w http.ResponseWriter, r *http.Request, protocols ...string) (*WebSocket, error) {
	key, err := websocketKey(w, r)
	if err != nil {
		return nil, err
	}
	var chosen string
	if len(protocols) > 0 {
		i := slices.IndexFunc(protocols, func(p string) bool { return offersProtocol(r, p) })
		if i < 0 {
			return nil, status.BadRequest("the server speaks the subprotocols %s, and none of those that the request names", strings.Join(protocols, ", "))
		}
		chosen = protocols[i]
		w.Header().Set("Sec-Websocket-Protocol", chosen)
	}
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // see above
	w.Header().Set("Sec-Websocket-Accept", base64.StdEncoding.EncodeToString(sum[:]))
	conn, _, err := Upgrade(w, r, "websocket")
	if err != nil {
		return nil, err
	}
	return &WebSocket{conn: conn, r: bufio.NewReader(conn), protocol: chosen, limit: maxMessage}, nil
}

// websocketKey checks the handshake of a client (RFC 6455, 4.2.1).
func websocketKey(w http.ResponseWriter, r *http.Request) (string, error) {
	if r.Method != http.MethodGet || !request.AsksUpgrade(r) || !request.HasToken(r.Header["Upgrade"], "websocket") {
		return "", status.BadRequest("a WebSocket is asked for with GET and the headers Connection: Upgrade and Upgrade: websocket, over HTTP/1.1")
	}
	if versions := r.Header["Sec-Websocket-Version"]; len(versions) != 1 || versions[0] != "13" {
		w.Header().Set("Sec-Websocket-Version", "13")
		return "", status.BadRequest("the version of WebSockets is 13")
	}
	keys := r.Header["Sec-Websocket-Key"]
	if len(keys) == 1 {
		if nonce, err := base64.StdEncoding.DecodeString(keys[0]); err == nil && len(nonce) == 16 {
			return keys[0], nil
		}
	}
	return "", status.BadRequest("Sec-WebSocket-Key must be 16 bytes in base64, once")
}

// offersProtocol tells whether the client names a subprotocol. Unlike other tokens these are compared with regard to case.
func offersProtocol(r *http.Request, protocol string) bool {
	for _, field := range r.Header["Sec-Websocket-Protocol"] {
		for element := range strings.SplitSeq(field, ",") {
			if strings.Trim(element, " \t") == protocol {
				return true
			}
		}
	}
	return false
}

// Protocol returns the subprotocol that was agreed on, "" if none.
func (s *WebSocket) Protocol() string { return s.protocol }

// SetLimit sets the longest message, in bytes, that Read takes. Default 1 MiB.
func (s *WebSocket) SetLimit(bytes int64) { s.limit = bytes }

// Read returns the next message. It answers pings on the way. The error is a *CloseError when the other side has closed, or has
// broken the protocol, which closes the connection in order.
func (s *WebSocket) Read() (MessageKind, []byte, error) {
	var kind MessageKind
	var message []byte
	for {
		f, err := s.readFrame(int64(len(message)))
		if err != nil {
			return 0, nil, s.failed(err)
		}
		switch {
		case f.opcode == pingFrame:
			if err := s.writeFrame(pongFrame, f.payload); err != nil {
				return 0, nil, err
			}
			continue
		case f.opcode == pongFrame:
			continue
		case f.opcode == closeFrame:
			return 0, nil, s.answerClose(f.payload)
		case (f.opcode == continuation) != (kind != 0):
			return 0, nil, s.failed(&CloseError{CloseProtocolError, "a message begins within another, or nowhere"})
		case f.opcode != continuation:
			kind = MessageKind(f.opcode)
		}
		message = append(message, f.payload...)
		if !f.final {
			continue
		}
		if kind == TextMessage && !utf8.Valid(message) {
			return 0, nil, s.failed(&CloseError{CloseInvalidData, "the text is not UTF-8"})
		}
		return kind, message, nil
	}
}

// answerClose ends a connection that the other side has closed.
func (s *WebSocket) answerClose(payload []byte) error {
	out := &CloseError{Code: closeNoCode}
	switch {
	case len(payload) == 1:
		return s.failed(&CloseError{CloseProtocolError, "half a code"})
	case len(payload) >= 2:
		out.Code, out.Reason = int(binary.BigEndian.Uint16(payload)), string(payload[2:])
		if !validCloseCode(out.Code) || !utf8.ValidString(out.Reason) {
			return s.failed(&CloseError{CloseProtocolError, "no such code"})
		}
	}
	code := out.Code
	if code == closeNoCode {
		code = CloseNormal
	}
	_ = s.Close(code, "")
	return out
}

func validCloseCode(code int) bool {
	return code >= 1000 && code <= 1003 || code >= 1007 && code <= 1014 || code >= 3000 && code <= 4999
}

// failed closes a connection whose other side does not keep the rules.
func (s *WebSocket) failed(err error) error {
	if wrong, ok := errors.AsType[*CloseError](err); ok {
		_ = s.Close(wrong.Code, wrong.Reason)
	}
	return err
}

// frame is one frame of a client.
type frame struct {
	final   bool
	opcode  byte
	payload []byte
}

// readFrame reads a frame; before is how much of its message came with others.
func (s *WebSocket) readFrame(before int64) (frame, error) {
	var head [8]byte
	if _, err := io.ReadFull(s.r, head[:2]); err != nil {
		return frame{}, err
	}
	f := frame{final: head[0]&0x80 != 0, opcode: head[0] & 0x0f}
	control, length := f.opcode >= closeFrame, int64(head[1]&0x7f)
	switch {
	case head[0]&0x70 != 0, f.opcode > byte(BinaryMessage) && !control, f.opcode > pongFrame:
		return f, &CloseError{CloseProtocolError, "bits or opcodes that nobody agreed on"}
	case head[1]&0x80 == 0:
		return f, &CloseError{CloseProtocolError, "a frame of a client is not masked"}
	case control && (!f.final || length > 125):
		return f, &CloseError{CloseProtocolError, "a control frame is long, or in parts"}
	}
	extra := map[int64]int{126: 2, 127: 8}[length]
	if extra > 0 {
		if _, err := io.ReadFull(s.r, head[8-extra:]); err != nil {
			return f, err
		}
		clear(head[:8-extra])
		n := binary.BigEndian.Uint64(head[:])
		if n>>63 != 0 || extra == 2 && n < 126 || extra == 8 && n < 1<<16 {
			return f, &CloseError{CloseProtocolError, "a length is not written in its shortest form"}
		}
		length = int64(n)
	}
	if !control && length > s.limit-before {
		return f, &CloseError{CloseTooBig, fmt.Sprintf("a message has more than %d bytes", s.limit)}
	}
	var mask [4]byte
	if _, err := io.ReadFull(s.r, mask[:]); err != nil {
		return f, err
	}
	f.payload = make([]byte, 0, min(length, 4<<10)) // no more on the word of a client than what a page holds
	for int64(len(f.payload)) < length {
		n := int(min(length-int64(len(f.payload)), 32<<10))
		f.payload = slices.Grow(f.payload, n)
		part := f.payload[len(f.payload) : len(f.payload)+n]
		if _, err := io.ReadFull(s.r, part); err != nil {
			return f, err
		}
		f.payload = f.payload[:len(f.payload)+n]
	}
	for i := range f.payload {
		f.payload[i] ^= mask[i&3]
	}
	return f, nil
}

// Write sends a message. It waits until the other side takes it, for some seconds at most.
func (s *WebSocket) Write(kind MessageKind, message []byte) error {
	if kind != TextMessage && kind != BinaryMessage {
		return fmt.Errorf("rest: there is no kind %d of messages", kind)
	}
	return s.writeFrame(byte(kind), message)
}

func (s *WebSocket) writeFrame(opcode byte, payload []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	head := []byte{0x80 | opcode}
	switch n := len(payload); {
	case n < 126:
		head = append(head, byte(n))
	case n < 1<<16:
		head = binary.BigEndian.AppendUint16(append(head, 126), uint16(n))
	default:
		head = binary.BigEndian.AppendUint64(append(head, 127), uint64(n))
	}
	s.closed = opcode == closeFrame
	_ = s.conn.SetWriteDeadline(time.Now().Add(frameTimeout))
	buffers := net.Buffers{head, payload}
	_, err := buffers.WriteTo(s.conn)
	return err
}

// Close says goodbye with a code and a reason of at most 123 bytes. The connection itself is closed when the handler returns, so that the
// other side has a moment to read it. It may be called more than once; the first counts.
func (s *WebSocket) Close(code int, reason string) error {
	payload := binary.BigEndian.AppendUint16(nil, uint16(code))
	err := s.writeFrame(closeFrame, append(payload, strings.ToValidUTF8(reason[:min(len(reason), 123)], "")...))
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
