package connection

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/pause"
	"github.com/kindwright/kindwright/tracing"
)

// Connection is where documents go, and how the sender proves who it is.
type Connection struct {
	URL    string
	Client *http.Client // nil: a client that follows no redirect

	// Authorize adds a credential to a request. It may be nil.
	Authorize func(*http.Request) error

	// Longest is how many bytes an answer may have. Zero means [MaxAnswer].
	Longest int

	// Repeatable says that a document may be sent again, over another connection, if one that was kept breaks
	// off before the answer begins.
	Repeatable bool
}

// MaxAnswer is how many bytes an answer may have, unless a [Connection] says otherwise.
const MaxAnswer = 1 << 20

// ErrLongAnswer is the error for an answer that has more bytes than it may have.
var ErrLongAnswer = errors.New("the answer is too long")

// maxErrorText is how many bytes of the text of an error are kept.
const maxErrorText = 2048

// maxPause bounds the seconds that an answer asks to wait.
const maxPause = 1 << 20

// CodeError is the error for an answer that is not a success.
type CodeError struct {
	Code  int
	After bool          // the answer asks for a retry
	Pause time.Duration // before that retry
	Text  string        // the beginning of the answer, if that is plain text
	Said  string        // the message of the answer, if that is a Status
}

// Overloaded reports whether the answer asks to be asked again because the server cannot answer now.
func (e *CodeError) Overloaded() bool {
	return e.After && (e.Code == http.StatusTooManyRequests || e.Code >= http.StatusInternalServerError)
}

// Error returns the code and its text.
func (e *CodeError) Error() string {
	return fmt.Sprintf("the answer is %d %s", e.Code, http.StatusText(e.Code))
}

// WithClient returns the connection with a client, if it has none.
func (c Connection) WithClient() Connection {
	if c.Client == nil {
		c.Client = &http.Client{Timeout: requestTimeout, CheckRedirect: noRedirect}
	}
	return c
}

// Post sends a JSON document once and returns the answer. An answer other than 200 to 206 is a
// *[CodeError], redirects included; clients of Kubernetes know no other success. The connection must have a client.
func (c Connection) Post(ctx context.Context, document []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(document))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	if c.Repeatable {
		r.Header["Idempotency-Key"] = nil // tells net/http, and is not sent
	}
	if c.Authorize != nil {
		if err := c.Authorize(r); err != nil {
			return nil, err
		}
	}
	res, err := tracing.Send(r, c.Client.Do)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode < http.StatusOK || res.StatusCode > http.StatusPartialContent {
		return nil, codeError(res)
	}
	longest := cmp.Or(c.Longest, MaxAnswer)
	answer, err := io.ReadAll(io.LimitReader(res.Body, int64(longest)+1))
	switch {
	case err != nil:
		return nil, err
	case len(answer) > longest:
		return nil, fmt.Errorf("%w: it has more than %d bytes", ErrLongAnswer, longest)
	}
	return answer, nil
}

func codeError(res *http.Response) *CodeError {
	seconds, notSeconds := strconv.Atoi(res.Header.Get("Retry-After"))
	out := &CodeError{Code: res.StatusCode, After: notSeconds == nil && seconds >= 0}
	out.Pause = time.Duration(min(max(seconds, 0), maxPause)) * time.Second
	media, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch {
	case err != nil:
	case strings.HasPrefix(media, "text/"):
		text, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorText)) // what has come is better than nothing
		out.Text = strings.ToValidUTF8(strings.TrimSpace(string(text)), "")
	case media == "application/json":
		text, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorText))
		out.Said = messageOf(text)
	}
	return out
}

// messageOf returns the message of a failure that is a Status, or "".
func messageOf(text []byte) string {
	v, err := json.DecodeTree(text, json.TreeOptions{})
	if err != nil {
		return ""
	}
	said, _ := v.(map[string]any)
	if said["apiVersion"] != "v1" || said["kind"] != "Status" || said["status"] == "Success" {
		return ""
	}
	message, _ := said["message"].(string)
	return message
}

// Backoff says how often something is tried, and how long the pauses between are.
type Backoff struct {
	First  time.Duration
	Factor float64
	Jitter float64 // part of a pause that is added at random, at most
	Steps  int     // attempts
}

// DefaultBackoff is that of kube-apiserver for webhooks that are asked during a request.
func DefaultBackoff() Backoff {
	return Backoff{First: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}
}

// Retry calls once until it returns no error or one that is final, as often as the backoff says.
func Retry(ctx context.Context, b Backoff, once func() error) error {
	wait := b.First
	for n := 1; ; n++ {
		err := once()
		if err == nil || !transient(err) || n >= b.Steps {
			return err
		}
		extra := time.Duration(rand.Float64() * b.Jitter * float64(wait)) //nolint:gosec // no secret
		if pauseErr := pause.For(ctx, wait+extra); pauseErr != nil {
			return errors.Join(err, pauseErr)
		}
		wait = time.Duration(float64(wait) * b.Factor)
	}
}

// transient reports whether another attempt may succeed.
func transient(err error) bool {
	if code, ok := errors.AsType[*CodeError](err); ok {
		switch code.Code {
		case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusGatewayTimeout:
			return true
		}
		return code.After
	}
	return errors.Is(err, syscall.ECONNRESET) || strings.Contains(err.Error(), "http2: client connection lost")
}

// CleanPath takes out of an address what the clients of Kubernetes take out: slashes that are doubled
// or at the end, dots, and the query. Test harnesses write addresses with two slashes, which many
// servers answer with a redirect, and redirects are not followed.
func CleanPath(at *url.URL) {
	at.Path, at.RawPath, at.RawQuery = path.Join("/", at.Path), "", ""
}
