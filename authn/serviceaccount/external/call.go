package external

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

// The bounds of one call.
const (
	callTimeout = 10 * time.Second
	maxMessage  = 4 << 20 // as in gRPC
	maxShown    = 200     // of what the signer says about a failure
)

// service is the name of the service in the paths of calls.
const service = "v1.ExternalJWTSigner"

// caller calls the methods of a service on a Unix socket.
type caller struct{ client *http.Client }

func newCaller(socket string) *caller {
	var only http.Protocols
	only.SetUnencryptedHTTP2(true)
	dialer := &net.Dialer{}
	return &caller{&http.Client{Timeout: callTimeout, Transport: &http.Transport{
		Protocols:          &only,
		DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		},
	}}}
}

// call sends a message and returns the answer.
func (c *caller) call(ctx context.Context, method string, message []byte) ([]byte, error) {
	answer, err := c.exchange(ctx, method, message)
	return answer, about(method, err)
}

// about says which method an error is about.
func about(method string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("external signer: %s: %w", method, err)
}

// headBytes is what comes before a message: whether it is compressed, and its length.
const headBytes = 5

func (c *caller) exchange(ctx context.Context, method string, message []byte) ([]byte, error) {
	body := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/"+service+"/"+method, bytes.NewReader(append(body, message...)))
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
		return nil, fmt.Errorf("code %q: %s", clip.Text(code, maxShown), clip.Text(why, maxShown))
	case len(data) < headBytes || data[0] != 0 || int(binary.BigEndian.Uint32(data[1:])) != len(data)-headBytes:
		return nil, errors.New("the answer is not one plain message")
	}
	return data[headBytes:], nil
}
