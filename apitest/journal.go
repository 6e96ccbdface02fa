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
	"github.com/kindwright/kindwright/internal/request"
)

// Request is what a server remembers of a request: enough to see in the output of a test what its
// clients did.
type Request struct {
	At    time.Duration // since the start of the server, on its clock: in a synctest bubble virtual
	Took  time.Duration // to the end of the answer; of a watch that goes on, until now
	Open  bool          // the answer has not ended
	Watch bool

	Method, URL string // the path with its query
	Verb        string // such as "list"; "" for what could not be understood
	Resource    string // such as "widgets/status"
	Object      string // its namespace, "/" and name, as far as the path says them
	User, Agent string

	Code  int   // 0 when the connection was broken off before the answer
	Bytes int64 // of the answer's body

	// Sent and Got are the beginnings of the request's body and of the body of a refusal. What
	// looks like a secret is left out.
	Sent, Got string

	// Fault is what a fault of the test did to it.
	Fault string

	sent, got         []byte // the beginnings as they are
	sentType, gotType string
}

// readable returns the request with what may be shown of its bodies.
func (r *Request) readable() Request {
	out := *r
	out.Sent, out.Got = r.excerpt(r.sent, r.sentType), r.excerpt(r.got, r.gotType)
	return out
}

// journalLength is how many requests are remembered, beside those that are open.
const journalLength = 50

// lineLength is how much of a request is shown in a line.
const lineLength = 200

// excerptBytes is how much is remembered of a body.
const excerptBytes = 400

// journal is what a server remembers of its requests.
type journal struct {
	began time.Time

	mu     sync.Mutex // guards what follows, and every Request in it
	open   map[*Request]struct{}
	ended  [journalLength]*Request // a ring
	number int                     // how many have ended
}

// record answers a request and notes what can be seen of that from outside.
func (s *Server) record(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter, *http.Request, *Request)) {
	j := &s.journal
	note := &Request{At: time.Since(j.began), Open: true, Method: r.Method, URL: r.URL.RequestURI(), Agent: r.UserAgent(), sentType: r.Header.Get("Content-Type")}
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

// identify notes what the chain has found out.
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

// hit tells that a fault has hit the request.
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

// Requests returns the requests that the server remembers, the latest fifty and those that are
// open, in the order in which they began.
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

// String is a line about the request, and one each for what was sent and got.
func (r Request) String() string {
	var b strings.Builder
	what := strings.TrimSpace(r.Verb + " " + r.Resource + " " + r.Object)
	if _, query, _ := strings.Cut(r.URL, "?"); query != "" {
		what += " ?" + query
	}
	if r.Verb == "" {
		what = r.Method + " " + r.URL
	}
	if len(what) > lineLength {
		what = strings.ToValidUTF8(what[:lineLength], "") + "…" // a continue token, most likely
	}
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

// report leads to the log of a test that has failed what its clients did.
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

// observed is the writer of an answer that is remembered.
type observed struct {
	http.ResponseWriter
	journal *journal
	note    *Request
}

// WriteHeader notes the code.
func (w *observed) WriteHeader(code int) {
	w.journal.mu.Lock()
	if w.note.Code < http.StatusOK {
		w.note.Code = code
	}
	w.journal.mu.Unlock()
	w.ResponseWriter.WriteHeader(code)
}

// Write notes how much there is, and the beginning of a refusal.
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

// observedBody is the body of a request whose beginning is remembered.
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

// printable tells whether bytes are text; the last character may be cut.
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
