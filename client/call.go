package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/pause"
	"github.com/kindwright/kindwright/status"
)

// mediaJSON is the default media type of requests and responses.
const mediaJSON = "application/json"

// maxTries limits how often a request is sent when the server asks to retry later.
const maxTries = 10

// caller sends requests for one kind. It is the untyped half of a Client.
type caller struct {
	*config
	place
	http *http.Client
}

// call is one request.
type call struct {
	method      string
	path        []string // decoded segments, below the server's own path
	query       url.Values
	contentType string // of body; default JSON
	body        []byte
	accept      string   // the media type of the answer; default JSON
	upgrade     []string // the protocols to offer for an upgrade; usually none
}

// succeeded reports whether a response means success.
func (q *call) succeeded(res *http.Response) bool {
	return res.StatusCode >= 200 && res.StatusCode < 300 || len(q.upgrade) > 0 && res.StatusCode == http.StatusSwitchingProtocols
}

// do sends a request and returns the body of the response.
func (c *caller) do(ctx context.Context, q call) ([]byte, error) {
	res, err := c.send(ctx, q)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	data, err := readBounded(res.Body, c.maxAnswer)
	if err == nil {
		return data, nil
	}
	err = fmt.Errorf("client: cannot read the response to %s %s: %w", q.method, res.Request.URL.Path, err)
	if _, long := errors.AsType[errTooLong](err); long {
		err = unusable{err}
	}
	return nil, err
}

// send sends a request and returns a successful response. It retries if the server sends
// Retry-After. The error is a *status.Error if the server answered with one.
func (c *caller) send(ctx context.Context, q call) (*http.Response, error) {
	for try := 1; ; try++ {
		res, err := c.once(ctx, q)
		if err != nil {
			return nil, err
		}
		if q.succeeded(res) {
			return res, nil
		}
		failure := readFailure(res)
		wait, asked := retryAfter(res.Header, failure)
		if !asked || !repeatable(q.method, res.StatusCode) || try == maxTries {
			return nil, failure
		}
		wait = min(wait, c.maxWait)
		c.log.V(1).Info("the server asks to retry later", "method", q.method, "path", res.Request.URL.Path,
			"code", res.StatusCode, "wait", wait)
		if err := pause.For(ctx, wait); err != nil {
			return nil, err
		}
	}
}

func (c *caller) once(ctx context.Context, q call) (*http.Response, error) {
	u := c.base.JoinPath(escaped(q.path)...)
	u.RawQuery = q.query.Encode()
	var body io.Reader
	if q.body != nil {
		body = bytes.NewReader(q.body)
	}
	r, err := http.NewRequestWithContext(ctx, q.method, u.String(), body)
	if err != nil {
		return nil, unusable{fmt.Errorf("client: %w", err)}
	}
	r.Header.Set("Accept", cmp.Or(q.accept, mediaJSON))
	r.Header.Set("User-Agent", c.userAgent)
	if len(q.upgrade) > 0 {
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", strings.Join(q.upgrade, ", "))
	}
	if q.body != nil {
		r.Header.Set("Content-Type", mediaJSON)
		if q.contentType != "" {
			r.Header.Set("Content-Type", q.contentType)
		}
	}
	res, err := c.http.Do(r)
	if err != nil {
		return nil, c.unreachable(err)
	}
	return res, nil
}

// unreachable explains why a request got no response. Retrying does not help a client that was not
// given the server's address.
func (c *caller) unreachable(err error) error {
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.Name == inProcessHost {
		return unusable{fmt.Errorf("client: the server has no address, set one with At: %w", err)}
	}
	return fmt.Errorf("client: %w", err)
}

// server describes the configured server for error messages. A wrong address, or one without the
// path of the API, is a likely reason for unexpected responses.
func (c *caller) server() string { return "the server at " + c.base.Redacted() }

func escaped(path []string) []string {
	out := make([]string, len(path))
	for i, segment := range path {
		out[i] = url.PathEscape(segment)
	}
	return out
}

// repeatable reports whether a failed request may be sent again. With 429 and 503 the server has
// not processed it. After the other codes a write may have happened, so only reads are repeated.
func repeatable(method string, code int) bool {
	switch code {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return true
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout:
		return method == http.MethodGet
	}
	return false
}

// retryAfter returns how long the server asks to wait, in the header or in the details of its
// Status (ERR-12, ERR-24).
func retryAfter(h http.Header, failure *status.Error) (time.Duration, bool) {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at)), true
	}
	if seconds := failure.RetryAfterSeconds(); seconds > 0 {
		return time.Duration(seconds) * time.Second, true
	}
	return 0, false
}

// errTooLong reports a response beyond the limit.
type errTooLong struct{ limit int64 }

func (e errTooLong) Error() string {
	return fmt.Sprintf("it is longer than %d bytes, see WithMaxAnswer", e.limit)
}

// readBounded reads to the end, or fails after limit bytes.
func readBounded(r io.Reader, limit int64) ([]byte, error) {
	var buf bytes.Buffer
	n, err := io.Copy(&buf, io.LimitReader(r, limit+1))
	switch {
	case err != nil:
		return nil, err
	case n > limit:
		return nil, errTooLong{limit}
	}
	return buf.Bytes(), nil
}

// notConfigured returns the error for every call of a Client with invalid arguments.
func notConfigured(h *http.Client, problems ...error) error {
	if h == nil {
		problems = append(problems, errors.New("client: the http.Client is nil"))
	}
	return errors.Join(problems...)
}
