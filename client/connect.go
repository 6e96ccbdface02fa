package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/kindwright/kindwright/meta"
)

// Stream reads a subresource that answers with bytes rather than a document, such as a log. The
// answer may go on for as long as ctx does, and has no bound; the caller closes it.
func (s *Sub[Req, Ans]) Stream(ctx context.Context, key meta.Key) (io.ReadCloser, error) {
	path, err := s.path(key)
	if err != nil {
		return nil, err
	}
	res, err := s.send(ctx, call{method: http.MethodGet, path: path, query: s.query(url.Values{}), accept: "*/*"})
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// Connect asks a subresource for a connection, on which both sides then say what they like in one
// of these protocols (RFC 9110, 7.8), and returns it with the protocol that the server has chosen.
// The connection ends with ctx; the caller closes it.
//
// It takes a connection of its own, so the http.Client must speak HTTP/1.1 to the server, and can
// have no Timeout. InProcess has no connections. For WebSocket, a library for that can do the
// handshake instead.
func (s *Sub[Req, Ans]) Connect(ctx context.Context, key meta.Key, protocols ...string) (conn io.ReadWriteCloser, protocol string, err error) {
	path, err := s.path(key)
	if err != nil {
		return nil, "", err
	}
	if len(protocols) == 0 {
		return nil, "", fmt.Errorf("client: %s %q: no protocol to connect to %s with", s.resource, key, s.name)
	}
	res, err := s.send(ctx, call{method: http.MethodGet, path: path, query: s.query(url.Values{}), accept: "*/*", upgrade: protocols})
	if err != nil {
		return nil, "", err
	}
	conn, ok := res.Body.(io.ReadWriteCloser)
	if res.StatusCode != http.StatusSwitchingProtocols || !ok {
		_ = res.Body.Close()
		return nil, "", unusable{fmt.Errorf("client: %s %q: %s answered %s, which is no connection to write to", s.resource, key, s.name, res.Status)}
	}
	return conn, res.Header.Get("Upgrade"), nil
}
