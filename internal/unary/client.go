package unary

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/clip"
)

const (
	maxMessage = 4 << 20 // as in gRPC
	maxShown   = 200     // of what the service says about a failure
)

// Client calls the methods of a service. It is safe for concurrent use.
type Client struct {
	service string
	client  *http.Client
}

// New returns a client of a service, such as v2.KeyManagementService, at a socket. A call ends after
// the timeout.
func New(socket, service string, timeout time.Duration) *Client {
	var only http.Protocols
	only.SetUnencryptedHTTP2(true)
	dialer := &net.Dialer{}
	return &Client{service, &http.Client{Timeout: timeout, Transport: &http.Transport{
		Protocols:          &only,
		DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		},
	}}}
}

// Close closes the connection when no call uses it.
func (c *Client) Close() { c.client.CloseIdleConnections() }

// StatusError is what a service answers instead of a message.
type StatusError struct{ Code, Message string }

// Error returns the code and the message, which is cut.
func (e *StatusError) Error() string {
	return fmt.Sprintf("code %q: %s", clip.Text(e.Code, maxShown), clip.Text(e.Message, maxShown))
}

// headBytes is what comes before a message: whether it is compressed, and its length.
const headBytes = 5

// Call sends a message and returns the answer. If the service answers with a failure, the error is a
// *[StatusError]. Others mean that there was no answer, or none of gRPC.
func (c *Client) Call(ctx context.Context, method string, message []byte) ([]byte, error) {
	body := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/"+c.service+"/"+method, bytes.NewReader(append(body, message...)))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("Te", "trailers")
	res, err := c.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(res.Body, headBytes+maxMessage+1))
	if err != nil {
		return nil, err
	}
	code, why := res.Trailer.Get("Grpc-Status"), res.Trailer.Get("Grpc-Message")
	if code == "" { // an answer without a message has its trailer in the header
		code, why = res.Header.Get("Grpc-Status"), res.Header.Get("Grpc-Message")
	}
	switch {
	case res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"), "application/grpc"):
		return nil, fmt.Errorf("no answer of gRPC, but %s", res.Status)
	case len(data) > headBytes+maxMessage: // its trailer was not read
		return nil, fmt.Errorf("the answer is longer than %d bytes", maxMessage)
	case code != "0":
		return nil, &StatusError{code, why}
	case len(data) < headBytes || data[0] != 0 || int(binary.BigEndian.Uint32(data[1:])) != len(data)-headBytes:
		return nil, errors.New("the answer is not one plain message")
	}
	return data[headBytes:], nil
}
