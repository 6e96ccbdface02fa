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
// response has no size limit and may continue until ctx ends. The caller closes it.
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

// Connect opens a connection to a subresource and returns it with the protocol that the server
// chose from protocols (RFC 9110, 7.8). The connection ends with ctx. The caller closes it.
//
// Connect needs a connection of its own, so the http.Client must speak HTTP/1.1 to the server and
// must not have a Timeout. InProcess does not support it. For WebSocket a library can do the
// handshake instead.
func (s *Sub[Req, Ans]) Connect(ctx context.Context, key meta.Key, protocols ...string) (conn io.ReadWriteCloser, protocol string, err error) {
	path, err := s.path(key)
	if err != nil {
		return nil, "", err
	}
	if len(protocols) == 0 {
		return nil, "", fmt.Errorf("client: %s %q: Connect to %s needs at least one protocol", s.resource, key, s.name)
	}
	res, err := s.send(ctx, call{method: http.MethodGet, path: path, query: s.query(url.Values{}), accept: "*/*", upgrade: protocols})
	if err != nil {
		return nil, "", err
	}
	conn, ok := res.Body.(io.ReadWriteCloser)
	if res.StatusCode != http.StatusSwitchingProtocols || !ok {
		_ = res.Body.Close()
		return nil, "", unusable{fmt.Errorf("client: %s %q: %s answered %s with a connection that cannot be written to", s.resource, key, s.name, res.Status)}
	}
	return conn, res.Header.Get("Upgrade"), nil
}
