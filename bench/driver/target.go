package driver

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/bench/load"
	"github.com/kindwright/kindwright/bench/process"
	"github.com/kindwright/kindwright/bench/shape"
)

// Config describes a server.
type Config struct {
	Name      string        // for results
	URL       string        // without a path, unless the API is mounted below one
	Token     string        // a bearer token; "" for none
	TLS       *tls.Config   // nil for the system's certificate authorities
	Shape     shape.Shape   // the objects
	Processes process.Group // of the server and its dependencies, such as its store

	// Observe, if not nil, is called when a measurement starts; the function that it returns is
	// called at the end.
	Observe func(ctx context.Context) (done func(ctx context.Context) error, err error)

	// LiveHeap, if not nil, runs the server's garbage collector, returns free memory to the system,
	// and reports the bytes in use.
	LiveHeap func(ctx context.Context) (int64, error)
}

// The connections of a target.
const (
	connections          = 4  // for requests, used in turn
	streamsPerConnection = 90 // watches; servers allow 100 or more
)

// Target is a server that workloads run against, one at a time.
type Target struct {
	Config
	scale Scale

	base    *url.URL
	clients []*http.Client
	run     string              // distinguishes the namespaces of this target from all others, including earlier runs
	seq     atomic.Int64        // number of writes
	loaded  map[string]int      // objects by namespace
	opened  map[string]struct{} // namespaces that exist
}

// Open connects to a server.
func Open(ctx context.Context, c Config, scale Scale) (*Target, error) {
	base, err := url.Parse(c.URL)
	if err != nil {
		return nil, err
	}
	if base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("%s: want an https URL", c.URL)
	}
	base.Path = strings.TrimSuffix(base.Path, "/")
	t := &Target{
		Config: c, scale: scale, base: base, run: strconv.FormatInt(time.Now().UnixMicro(), 36),
		loaded: map[string]int{}, opened: map[string]struct{}{},
	}
	for range connections {
		t.clients = append(t.clients, t.client(0))
	}
	if err := t.connect(ctx, t.clients); err != nil {
		t.Close()
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	return t, nil
}

// Close closes the connections.
func (t *Target) Close() {
	for _, c := range t.clients {
		c.CloseIdleConnections()
	}
}

// Clean deletes the objects of all workloads, for servers that keep running.
func (t *Target) Clean(ctx context.Context) error {
	var failed error
	for ns := range t.opened {
		r := request{method: http.MethodDelete, path: t.Shape.In(ns)}
		if _, err := t.drain(ctx, t.clients[0], r); err != nil {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// client returns a client with its own connection. window is the number of unread bytes per stream
// after which the server must wait; 0 means Go's default of 4 MiB.
func (t *Target) client(window int) *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig:    t.TLS,
		ForceAttemptHTTP2:  true,
		DisableCompression: true, // a workload requests compression itself and counts the bytes
		ReadBufferSize:     64 << 10,
		HTTP2:              &http.HTTP2Config{MaxReceiveBufferPerStream: window},
	}}
}

// connect opens connections, again if the server has closed them.
func (t *Target) connect(ctx context.Context, clients []*http.Client) error {
	for _, c := range clients {
		var refused *refusal
		if _, err := t.drain(ctx, c, request{path: "/version"}); err != nil && !errors.As(err, &refused) {
			return err
		}
	}
	return nil
}

// request describes one request.
type request struct {
	method      string // default GET
	path        string // including the query
	contentType string
	accept      string // default JSON
	gzip        bool
	body        []byte
}

// refusal is an unsuccessful response.
type refusal struct {
	method, path string
	code         int
	message      string
}

// Error names the request.
func (r *refusal) Error() string {
	return fmt.Sprintf("%s %s: %d %s", r.method, r.path, r.code, r.message)
}

// send returns a successful response. The caller closes its body.
func (t *Target) send(ctx context.Context, c *http.Client, r request) (*http.Response, error) {
	if r.method == "" {
		r.method = http.MethodGet
	}
	u := *t.base
	path, query, _ := strings.Cut(r.path, "?")
	u.Path, u.RawQuery = u.Path+path, query
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, "", body)
	if err != nil {
		return nil, err
	}
	req.URL, req.Host = &u, u.Host
	req.Header["User-Agent"] = []string{"kindwright-bench"}
	req.Header["Accept"] = []string{"application/json"}
	if r.accept != "" {
		req.Header["Accept"] = []string{r.accept}
	}
	if r.contentType != "" {
		req.Header["Content-Type"] = []string{r.contentType}
	}
	if r.gzip {
		req.Header["Accept-Encoding"] = []string{"gzip"}
	}
	if t.Token != "" {
		req.Header["Authorization"] = []string{"Bearer " + t.Token}
	}
	res, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= http.StatusMultipleChoices {
		defer res.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10)) // the code suffices if there is no text
		var status struct{ Message string }
		if json.Unmarshal(text, &status) != nil || status.Message == "" {
			status.Message = printable(text)
		}
		return nil, &refusal{r.method, r.path, res.StatusCode, status.Message}
	}
	return res, nil
}

// printable returns the text of a response on one line. The response may be a protobuf Status.
func printable(answer []byte) string {
	words := strings.FieldsFunc(string(answer), func(r rune) bool { return r <= ' ' || r > '~' })
	return strings.Join(words, " ")
}

// fetch reads a response into a buffer.
func (t *Target) fetch(ctx context.Context, c *http.Client, r request, into *bytes.Buffer) error {
	into.Reset()
	res, err := t.send(ctx, c, r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = into.ReadFrom(res.Body)
	return err
}

// drain reads a response and returns its length.
func (t *Target) drain(ctx context.Context, c *http.Client, r request) (int64, error) {
	res, err := t.send(ctx, c, r)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	return io.Copy(io.Discard, res.Body)
}

// clientOf distributes workers over the connections.
func (t *Target) clientOf(worker int) *http.Client { return t.clients[worker%len(t.clients)] }

// collection returns the path of a workload's collection, after creating its namespace.
func (t *Target) collection(ctx context.Context, purpose string) (string, error) {
	ns := t.namespace(purpose)
	if _, ok := t.opened[ns]; ok {
		return t.Shape.In(ns), nil
	}
	body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, ns)
	r := request{method: http.MethodPost, path: "/api/v1/namespaces", contentType: "application/json", body: body}
	if _, err := t.drain(ctx, t.clients[0], r); err != nil {
		return "", err
	}
	t.opened[ns] = struct{}{}
	return t.Shape.In(ns), nil
}

func (t *Target) namespace(purpose string) string { return "bench-" + t.run + "-" + purpose }

// object returns the name of the i-th object of a collection.
func object(i int) string { return fmt.Sprintf("o-%06d", i) }

// values returns the template values of the i-th object.
func (t *Target) values(purpose string, i int) shape.Values {
	return shape.Values{Name: object(i), Namespace: t.namespace(purpose), Index: i, Seq: t.seq.Add(1)}
}

// fill ensures that a collection holds objects 0 to n-1, and returns its path.
func (t *Target) fill(ctx context.Context, purpose string, n int) (string, error) {
	coll, err := t.collection(ctx, purpose)
	if err != nil {
		return "", err
	}
	from := t.loaded[purpose]
	if from >= n {
		return coll, nil
	}
	loop := load.Loop{Workers: 64, Operations: n - from}
	out := loop.Run(ctx, func(ctx context.Context, w, i int) (int64, error) {
		body := t.Shape.Body.Append(nil, t.values(purpose, from+i))
		return t.drain(ctx, t.clientOf(w), request{method: http.MethodPost, path: coll, contentType: "application/json", body: body})
	})
	if out.Failure != nil {
		return "", fmt.Errorf("failed to create %d of %d objects: %w", out.Failed, n, out.Failure)
	}
	t.loaded[purpose] = n
	return coll, ctx.Err()
}

// dataBytes returns the number of bytes that a client sends to create n objects.
func (t *Target) dataBytes(n int) int64 {
	var total int64
	var body []byte
	for i := range n {
		body = t.Shape.Body.Append(body[:0], t.values("load", i))
		total += int64(len(body))
	}
	return total
}

// notServed returns the server's message if it reports that an operation is not supported, rather
// than that it failed.
func notServed(err error) (words string, refused bool) {
	var r *refusal
	var u unable
	switch {
	case errors.As(err, &u):
		return u.Error(), true
	case errors.As(err, &r) && slices.Contains([]int{
		http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
		http.StatusUnsupportedMediaType, http.StatusNotImplemented,
	}, r.code):
		return strings.TrimSpace(fmt.Sprintf("%d %.120s", r.code, r.message)), true
	default:
		return "", false
	}
}
