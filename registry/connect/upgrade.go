package connect

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/status"
)

// handshakeTimeout is how long a client may take for the answer that changes the protocol.
const handshakeTimeout = 10 * time.Second

// Upgrade takes over the connection of a request that asks for one of these protocols, such as "SPDY/3.1", which are compared without
// regard to case, and answers 101 with the headers of w. It returns the connection, from which what the client has sent
// already is read first, and the protocol. The error is a 400 where the client asks for something else, or cannot, as over HTTP/2;
// nothing has been sent then.
func Upgrade(w http.ResponseWriter, r *http.Request, protocols ...string) (net.Conn, string, error) {
	if r.ProtoMajor != 1 {
		return nil, "", status.BadRequest("this needs a connection of its own, which %s does not have; use HTTP/1.1", r.Proto)
	}
	if !request.AsksUpgrade(r) {
		return nil, "", status.BadRequest("Upgrade request required")
	}
	var chosen string
	for _, p := range protocols {
		if chosen == "" && request.HasToken(r.Header["Upgrade"], p) {
			chosen = p
		}
	}
	if chosen == "" {
		return nil, "", status.BadRequest("the server can change to the protocols %s, and to none of those that the request asks for", strings.Join(protocols, ", "))
	}
	conn, err := switchProtocols(w, chosen)
	return conn, chosen, err
}

func switchProtocols(w http.ResponseWriter, protocol string) (net.Conn, error) {
	header := w.Header().Clone()
	for _, name := range []string{"Content-Length", "Content-Type", "Transfer-Encoding", "Trailer"} {
		header.Del(name)
	}
	header.Set("Connection", "Upgrade")
	header.Set("Upgrade", protocol)
	var head bytes.Buffer
	head.WriteString("HTTP/1.1 101 Switching Protocols\r\n")
	_ = header.Write(&head)
	head.WriteString("\r\n")
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		if errors.Is(err, http.ErrNotSupported) {
			return nil, status.BadRequest("this needs a connection of its own, which the request does not have")
		}
		return nil, status.Internal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(handshakeTimeout))
	if _, err := conn.Write(head.Bytes()); err != nil {
		_ = conn.Close()
		return nil, err
	}
	_ = conn.SetDeadline(time.Time{})
	return &upgraded{Conn: conn, early: rw.Reader}, nil
}

// upgraded is a connection of which something may have been read.
type upgraded struct {
	net.Conn
	early *bufio.Reader // over Conn
}

// Read reads what came before the protocol changed, then from the connection.
func (u *upgraded) Read(p []byte) (int, error) {
	if u.early != nil && u.early.Buffered() > 0 {
		return u.early.Read(p[:min(len(p), u.early.Buffered())])
	}
	u.early = nil
	return u.Conn.Read(p)
}

// CloseWrite says that nothing more will be sent, where the connection can say so.
func (u *upgraded) CloseWrite() error {
	if half, ok := u.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return http.ErrNotSupported
}
