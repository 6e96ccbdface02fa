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

	"github.com/kindwright/kindwright/status"
)

// mediaJSON is what is sent and asked for.
const mediaJSON = "application/json"

// maxTries is how often a request is sent while the server asks for patience.
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
	upgrade     []string // the protocols that the connection may change to; usually none
}

// succeeded tells whether an answer says that all went well.
func (q *call) succeeded(res *http.Response) bool {
	return res.StatusCode >= 200 && res.StatusCode < 300 || len(q.upgrade) > 0 && res.StatusCode == http.StatusSwitchingProtocols
}

// do sends a request and returns the body of its answer.
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
	err = fmt.Errorf("client: the answer to %s %s cannot be read: %w", q.method, res.Request.URL.Path, err)
	if _, long := errors.AsType[errTooLong](err); long {
		err = unusable{err}
	}
	return nil, err
}

// send sends a request, again if the server asks for patience, and returns an answer that says that
// all went well. The error is a *status.Error when the server said what is wrong.
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
		c.log.V(1).Info("the server asks for patience", "method", q.method, "path", res.Request.URL.Path, "code", res.StatusCode, "wait", wait)
		if err := pause(ctx, wait); err != nil {
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

// unreachable says what kept a request from being answered. Waiting for a server will not help a
// client that was not told which one.
func (c *caller) unreachable(err error) error {
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.Name == inProcessHost {
		return unusable{fmt.Errorf("client: the address of the server is missing, see At: %w", err)}
	}
	return fmt.Errorf("client: %w", err)
}

// server says which server a client was told to ask: a wrong address, or one without the path below
// which the API is mounted, is a likely reason for answers that make no sense.
func (c *caller) server() string { return "the server at " + c.base.Redacted() }

func escaped(path []string) []string {
	out := make([]string, len(path))
	for i, segment := range path {
		out[i] = url.PathEscape(segment)
	}
	return out
}

// repeatable tells whether a request that failed may be sent again. 429 and 503 say that it was not
// looked at; after the others a write may have happened all the same, and nobody repeats it
// blindly.
func repeatable(method string, code int) bool {
	switch code {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return true
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout:
		return method == http.MethodGet
	}
	return false
}

// retryAfter is how long the server asks to wait, by header or by the details of its Status
// (ERR-12, ERR-24).
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

// pause waits, and returns early with the context's error.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errTooLong is why an answer is not read to its end.
type errTooLong struct{ limit int64 }

func (e errTooLong) Error() string {
	return fmt.Sprintf("it is longer than %d bytes, see WithMaxAnswer", e.limit)
}

// readBounded reads all there is, unless that is more than limit bytes.
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

// notConfigured is what every call of a Client returns that was made of wrong parts.
func notConfigured(h *http.Client, problems ...error) error {
	if h == nil {
		problems = append(problems, errors.New("client: the http.Client is nil"))
	}
	return errors.Join(problems...)
}
