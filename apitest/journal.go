package apitest

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/internal/request"
)

// Request describes a request that the server received, for the output of a failed test.
type Request struct {
	At    time.Duration // since the start of the server; virtual in a synctest bubble
	Took  time.Duration // until the end of the response, or until now if it is open
	Open  bool          // the response has not ended
	Watch bool

	Method, URL string // the path with its query
	Verb        string // such as "list"; "" if the request could not be parsed
	Resource    string // such as "widgets/status"
	Object      string // namespace, "/" and name, as far as the path has them
	User, Agent string

	Code  int   // 0 if the connection was closed before a response
	Bytes int64 // of the response body

	// Sent and Got are the beginnings of the request body and of the body of an error response,
	// without anything that looks like a secret.
	Sent, Got string

	// Fault describes what a fault of the test did to the request.
	Fault string

	sent, got         []byte // the unfiltered beginnings
	sentType, gotType string
}

// readable returns the request with filtered bodies.
func (r *Request) readable() Request {
	out := *r
	out.Sent, out.Got = r.excerpt(r.sent, r.sentType), r.excerpt(r.got, r.gotType)
	return out
}

// journalLength is how many finished requests are kept.
const journalLength = 50

// lineLength is the longest line about a request.
const lineLength = 200

// excerptBytes is how much of a body is kept.
const excerptBytes = 400

// journal holds the latest requests of a server.
type journal struct {
	began time.Time

	mu     sync.Mutex // guards the fields below and every Request in them
	open   map[*Request]struct{}
	ended  [journalLength]*Request // a ring
	number int                     // number of finished requests
}

// record serves a request and records what is visible from outside.
func (s *Server) record(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter, *http.Request, *Request)) {
	j := &s.journal
	note := &Request{
		At: time.Since(j.began), Open: true, Method: r.Method, URL: r.URL.RequestURI(),
		Agent: r.UserAgent(), sentType: r.Header.Get("Content-Type"),
	}
	seen := &observed{ResponseWriter: w, journal: j, note: note}
	if r.ContentLength != 0 {
		body := &observedBody{ReadCloser: r.Body, seen: seen}
		r = r.WithContext(r.Context())
		r.Body = body
	}
	j.begin(note)
	defer j.end(seen)
	serve(seen, r, note)
}

// identify adds the results of the handler chain.
func (c *call) identify(r *http.Request, info *request.Info) {
	if c.note == nil {
		return
	}
	j := &c.server.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	n := c.note
	if u, ok := authn.UserFrom(r.Context()); ok {
		n.User = u.Name
	}
	if !info.IsResource {
		return
	}
	n.Verb, n.Resource, n.Watch = info.Verb, info.Resource, info.Verb == request.VerbWatch
	if info.Subresource != "" {
		n.Resource += "/" + info.Subresource
	}
	n.Object = strings.Trim(info.Namespace+"/"+info.Name, "/")
}

// hit records that a fault has hit the request.
func (c *call) hit(fault string) {
	if c.note == nil {
		return
	}
	j := &c.server.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	c.note.Fault = strings.TrimPrefix(c.note.Fault+", "+fault, ", ")
}

func (j *journal) begin(n *Request) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.open == nil {
		j.open = make(map[*Request]struct{})
	}
	j.open[n] = struct{}{}
}

func (j *journal) end(seen *observed) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := seen.note
	n.Open, n.Took = false, time.Since(j.began)-n.At
	n.gotType = seen.Header().Get("Content-Type")
	delete(j.open, n)
	j.ended[j.number%journalLength] = n
	j.number++
}

// Requests returns the latest fifty finished requests and all open ones, in the order in which they
// began.
func (s *Server) Requests() []Request {
	j := &s.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []Request
	for _, n := range j.ended {
		if n != nil {
			out = append(out, n.readable())
		}
	}
	for n := range j.open {
		now := n.readable()
		now.Took = time.Since(j.began) - n.At
		out = append(out, now)
	}
	slices.SortStableFunc(out, func(a, b Request) int { return cmp.Compare(a.At, b.At) })
	return out
}

// String returns a line about the request, and one each for its body and its error response.
func (r Request) String() string {
	var b strings.Builder
	what := strings.TrimSpace(r.Verb + " " + r.Resource + " " + r.Object)
	if _, query, _ := strings.Cut(r.URL, "?"); query != "" {
		what += " ?" + query
	}
	if r.Verb == "" {
		what = r.Method + " " + r.URL
	}
	what = clip.Text(what, lineLength) // a continue token may be long
	fmt.Fprintf(&b, "+%s %s by %s", r.At.Round(time.Microsecond), what, cmp.Or(r.User, "nobody"))
	if r.Agent != "" {
		fmt.Fprintf(&b, " (%s)", r.Agent)
	}
	took := r.Took.Round(time.Microsecond)
	switch {
	case r.Open && r.Code == 0:
		fmt.Fprintf(&b, " → not answered for %s", took)
	case r.Open:
		fmt.Fprintf(&b, " → %d %s, open for %s, %d bytes so far", r.Code, http.StatusText(r.Code), took, r.Bytes)
	case r.Code == 0:
		fmt.Fprintf(&b, " → broken off in %s", took)
	default:
		fmt.Fprintf(&b, " → %d %s in %s", r.Code, http.StatusText(r.Code), took)
	}
	if r.Fault != "" {
		fmt.Fprintf(&b, " [fault: %s]", r.Fault)
	}
	if r.Sent != "" {
		fmt.Fprintf(&b, "\n    sent %s", r.Sent)
	}
	if r.Got != "" {
		fmt.Fprintf(&b, "\n    got  %s", r.Got)
	}
	return b.String()
}

// report logs the requests if the test has failed.
func (s *Server) report() {
	s.t.Helper()
	if !s.t.Failed() {
		return
	}
	var ended, open strings.Builder
	for _, r := range s.Requests() {
		to := &ended
		if r.Open {
			to = &open
		}
		fmt.Fprintf(to, "  %s\n", r)
	}
	text := fmt.Sprintf("apitest: the server was up for %s", time.Since(s.journal.began).Round(time.Microsecond))
	if ended.Len() > 0 {
		text += "; the latest requests to it:\n" + ended.String()
	}
	if open.Len() > 0 {
		text += "\nstill open:\n" + open.String()
	}
	s.t.Log(strings.TrimSuffix(text, "\n"))
}

// observed is a response writer that records the response.
type observed struct {
	http.ResponseWriter
	journal *journal
	note    *Request
}

// WriteHeader records the code.
func (w *observed) WriteHeader(code int) {
	w.journal.mu.Lock()
	if w.note.Code < http.StatusOK {
		w.note.Code = code
	}
	w.journal.mu.Unlock()
	w.ResponseWriter.WriteHeader(code)
}

// Write counts the bytes and records the beginning of an error response.
func (w *observed) Write(p []byte) (int, error) {
	w.journal.mu.Lock()
	if w.note.Code < http.StatusOK {
		w.note.Code = http.StatusOK
	}
	w.note.Bytes += int64(len(p))
	if w.note.Code >= http.StatusBadRequest && len(w.note.got) < excerptBytes {
		w.note.got = append(w.note.got, p[:min(len(p), excerptBytes-len(w.note.got))]...)
	}
	w.journal.mu.Unlock()
	return w.ResponseWriter.Write(p)
}

// Unwrap gives http.ResponseController the connection's own writer.
func (w *observed) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// observedBody is a request body that records its beginning.
type observedBody struct {
	io.ReadCloser
	seen *observed
}

// Read returns what the client sends.
func (b *observedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.seen.journal.mu.Lock()
	defer b.seen.journal.mu.Unlock()
	if note := b.seen.note; len(note.sent) < excerptBytes {
		note.sent = append(note.sent, p[:min(n, excerptBytes-len(note.sent))]...)
	}
	return n, err
}

// printable reports whether bytes are text; the last character may be incomplete.
func printable(b []byte) bool {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 && len(b) >= utf8.UTFMax || r < ' ' && r != '\n' && r != '\t' && r != '\r' {
			return false
		}
		b = b[n:]
	}
	return true
}
