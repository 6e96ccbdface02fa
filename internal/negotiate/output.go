package negotiate

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"

	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/internal/yaml"
	"github.com/kindwright/kindwright/status"
)

// DefaultMaxYAML is the longest document that is answered as YAML unless an Output says otherwise: 5 MiB of JSON, which is
// any one object, or a short list.
const DefaultMaxYAML = 5 << 20

// quickYAML is the longest document, in bytes of JSON, that is made YAML whatever else is going on.
const quickYAML = 64 << 10

// Output writes the answers of one server. Its zero value compresses nothing; it may be used by many requests at once and
// must not be copied after its first use.
type Output struct {
	// Compress answers with gzip when the client accepts it (GZIP-01, GZIP-02).
	Compress bool

	// Threshold is the number of bytes that a body must exceed to be compressed; 0 compresses every body. Kubernetes
	// has 128 KiB (GZIP-05).
	Threshold int

	// MaxYAML is the longest document, in bytes of JSON, that is answered as YAML. Making it YAML takes a hundred times its
	// size in memory if it consists of many small members, so that long ones are made one at a time. Zero means
	// DefaultMaxYAML.
	MaxYAML int

	compressors sync.Pool // of *compressor
	deflaters   sync.Pool // of *flate.Writer

	yamlOnce sync.Once
	yamlTurn chan struct{} // holds a token while a long document is being made YAML
}

// Write answers r with one JSON document in the agreed form. The document must be valid; it is not kept. The error is a
// *status.Error when nothing was sent, and else what the connection said.
func (o *Output) Write(w http.ResponseWriter, r *http.Request, form Result, code int, document []byte) error {
	a := o.Start(w, r, form, code)
	defer a.Abort()
	if form.MediaType != YAML && !form.Pretty {
		return a.sendWhole(document)
	}
	if _, err := a.Write(document); err != nil {
		return err
	}
	return a.Close()
}

// WriteObject answers r with an object as it is kept, of so many bytes, which writes itself. It is Write without a copy of
// the object, and tells false, having sent nothing, where it takes more than to copy.
func (o *Output) WriteObject(w http.ResponseWriter, r *http.Request, form Result, size int, object io.WriterTo) (done bool, err error) {
	switch {
	case form.MediaType != JSON || form.As != Object || form.Pretty || size > quickObject:
		return false, nil
	case o.Packs(r, size):
		return false, nil
	}
	o.begin(w, r, form, http.StatusOK, size)
	if r.Method == http.MethodHead {
		return true, nil
	}
	_, err = object.WriteTo(w)
	return true, err
}

// Packs tells whether the answer to r is compressed if its body has so many bytes.
func (o *Output) Packs(r *http.Request, size int) bool {
	return o.Compress && size > o.Threshold && r.Method != http.MethodHead && acceptsGzip(r.Header["Accept-Encoding"])
}

// Pack returns a body as it is after compression, for [Output.WritePacked].
func (o *Output) Pack(body []byte) ([]byte, error) {
	var packed bytes.Buffer
	c := o.compressor(&packed)
	defer o.release(c)
	if _, err := c.Write(body); err != nil {
		return nil, err
	}
	if err := c.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

// WritePacked answers r, for which [Output.Packs], with a body that Pack made. The error comes from the connection.
func (o *Output) WritePacked(w http.ResponseWriter, r *http.Request, form Result, code int, packed []byte) error {
	w.Header()["Content-Encoding"] = []string{"gzip"}
	o.begin(w, r, form, code, len(packed))
	_, err := w.Write(packed)
	return err
}

// quickObject is the longest object, in bytes, that writes itself. Longer ones are gathered first: their pieces would leave
// the buffers of net/http one by one.
const quickObject = 3 << 10

// Start begins an answer to r whose JSON document the caller writes in pieces. Nothing is sent before the first piece
// leaves the buffers; until then the caller may [Answer.Abort] and write an error instead. It is not for streams of events,
// which begin with [Begin] and are never held back.
func (o *Output) Start(w http.ResponseWriter, r *http.Request, form Result, code int) *Answer {
	a := &Answer{output: o, w: w, request: r, form: form, code: code, head: r.Method == http.MethodHead, length: -1}
	a.gzip = o.Compress && !a.head && acceptsGzip(r.Header["Accept-Encoding"])
	a.text = bodyWriter{a}
	if form.Pretty {
		a.text = &indenter{to: bodyWriter{a}}
	}
	return a
}

// Answer is an answer that is being written, by one goroutine. It ends with Close or Abort.
type Answer struct {
	output  *Output
	w       http.ResponseWriter
	request *http.Request
	form    Result
	code    int

	head    bool // no body is sent
	gzip    bool // the client takes gzip
	started bool // the header is sent
	length  int  // of the whole body; negative when it is not known

	text       io.Writer    // takes the JSON document, indents it if need be, and hands it to send
	held       bytes.Buffer // the whole document for YAML, else what came before the threshold was reached
	compressor *compressor  // not nil once compression has begun
	parts      *partWriter  // not nil in an answer of parts
}

// Write takes the next piece of the JSON document. A *status.Error says that the document cannot be answered in this form
// and nothing has been sent. Other errors come from the connection.
func (a *Answer) Write(p []byte) (int, error) {
	switch {
	case a.head:
		return len(p), nil
	case a.form.MediaType == YAML:
		return a.holdForYAML(p)
	}
	return a.text.Write(p)
}

func (a *Answer) holdForYAML(p []byte) (int, error) {
	limit := a.output.MaxYAML
	if limit <= 0 {
		limit = DefaultMaxYAML
	}
	if a.held.Len()+len(p) > limit {
		return 0, status.NotAcceptable([]string{JSON.String()})
	}
	return a.held.Write(p)
}

// Started reports whether something has been sent, so that it is too late for an error.
func (a *Answer) Started() bool { return a.started }

// Close ends the document and sends what was held back. A *status.Error says that nothing was sent.
func (a *Answer) Close() error {
	defer a.Abort()
	switch {
	case a.head:
		a.start()
		return nil
	case a.form.MediaType == YAML:
		document, err := a.toYAML()
		if err != nil {
			return err
		}
		return a.sendWhole(document)
	case a.form.Pretty:
		if err := a.send([]byte{'\n'}); err != nil {
			return err
		}
	}
	switch {
	case a.parts != nil:
		return a.parts.close()
	case a.compressor != nil:
		return a.compressor.Close()
	case !a.started:
		return a.sendPlain(a.held.Bytes())
	}
	return nil
}

// toYAML makes YAML of what was held back. The error is a *status.Error, 504 when the request ends before it has its turn.
func (a *Answer) toYAML() ([]byte, error) {
	if a.held.Len() > quickYAML {
		release, err := a.output.takeYAMLTurn(a.request.Context())
		if err != nil {
			return nil, status.From(err)
		}
		defer release()
	}
	document, err := yaml.FromJSON(a.held.Bytes())
	if err != nil {
		return nil, status.Internal(fmt.Errorf("writing an answer as YAML: %w", err))
	}
	return document, nil
}

// takeYAMLTurn waits until no long document is being made YAML, or for the end of ctx.
func (o *Output) takeYAMLTurn(ctx context.Context) (release func(), err error) {
	o.yamlOnce.Do(func() { o.yamlTurn = make(chan struct{}, 1) })
	select {
	case o.yamlTurn <- struct{}{}:
		return func() { <-o.yamlTurn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Abort releases what the answer holds. After Started, the caller must break the connection off, so that the client does
// not take a part for the whole. It may be called more than once, and after Close.
func (a *Answer) Abort() {
	if a.compressor != nil {
		a.output.release(a.compressor)
		a.compressor = nil
	}
	a.held = bytes.Buffer{}
}

// bodyWriter makes an io.Writer of send.
type bodyWriter struct{ a *Answer }

func (b bodyWriter) Write(p []byte) (int, error) {
	if err := b.a.send(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// send sends the next bytes of the body, compressed once there are enough of them.
func (a *Answer) send(p []byte) error {
	switch {
	case a.compressor != nil:
		_, err := a.compressor.Write(p)
		return err
	case !a.gzip:
		a.start()
		_, err := a.w.Write(p)
		return err
	case a.held.Len()+len(p) > a.output.Threshold:
		return a.compress(p)
	}
	_, err := a.held.Write(p)
	return err
}

// sendWhole sends a body that is known to its end.
func (a *Answer) sendWhole(body []byte) error {
	switch {
	case a.head:
		a.start()
		return nil
	case !a.gzip || len(body) <= a.output.Threshold:
		return a.sendPlain(body)
	}
	a.held.Reset()
	if err := a.compress(body); err != nil {
		return err
	}
	return a.compressor.Close()
}

// sendPlain sends a whole body as it is.
func (a *Answer) sendPlain(body []byte) error {
	a.length = len(body)
	a.start()
	_, err := a.w.Write(body)
	return err
}

// compress begins compression with what was held back and p.
func (a *Answer) compress(p []byte) error {
	a.w.Header().Set("Content-Encoding", "gzip")
	a.start()
	a.compressor = a.output.compressor(a.w)
	if _, err := a.compressor.Write(a.held.Bytes()); err != nil {
		return err
	}
	a.held = bytes.Buffer{}
	_, err := a.compressor.Write(p)
	return err
}

// start sends the header, once.
func (a *Answer) start() {
	if a.started {
		return
	}
	a.started = true
	a.output.begin(a.w, a.request, a.form, a.code, a.length)
}

// begin sends the header. length is negative when it is not known.
func (o *Output) begin(w http.ResponseWriter, r *http.Request, form Result, code, length int) {
	h := w.Header()
	values := [...]string{form.ContentType(), "Accept-Encoding", ""} // one array for all
	if vary := h["Vary"]; o.Compress && len(vary) == 0 {
		h["Vary"] = values[1:2:2]
	} else if o.Compress {
		h["Vary"] = append(vary, values[1])
	}
	if length >= 0 {
		values[2] = strconv.Itoa(length)
		h["Content-Length"] = values[2:3:3]
	}
	begin(w, r, values[0:1:1], code)
}

// compressor is a gzip.Writer with a buffer behind it, for what it writes are scraps of a quarter of a kilobyte.
type compressor struct {
	*gzip.Writer
	out *bufio.Writer
}

// compressedPiece is how much of a compressed body is sent at once: with the header of an HTTP/2 frame one TLS record.
const compressedPiece = 16<<10 - 9

// compressor returns a compressor to w. Its tables are large, so that it is used again and again.
func (o *Output) compressor(w io.Writer) *compressor {
	if c, ok := o.compressors.Get().(*compressor); ok {
		c.reset(w)
		return c
	}
	out := bufio.NewWriterSize(w, compressedPiece)
	c, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
	if err != nil {
		c = gzip.NewWriter(out) // the library refuses its own constant: any level will do
	}
	return &compressor{Writer: c, out: out}
}

// release takes back a compressor that is no longer in use.
func (o *Output) release(c *compressor) {
	c.reset(io.Discard)
	o.compressors.Put(c)
}

func (c *compressor) reset(w io.Writer) {
	c.out.Reset(w)
	c.Writer.Reset(c.out)
}

// Close ends the body and sends the rest of it.
func (c *compressor) Close() error {
	if err := c.Writer.Close(); err != nil {
		return err
	}
	return c.out.Flush()
}

// Begin sends the header of an answer to r, with the warnings collected so far.
func Begin(w http.ResponseWriter, r *http.Request, contentType string, code int) {
	begin(w, r, []string{contentType}, code)
}

func begin(w http.ResponseWriter, r *http.Request, contentType []string, code int) {
	h := w.Header()
	request.ExchangeFrom(r.Context()).Warnings().SetHeader(h)
	h["Content-Type"] = contentType
	if v := h["X-Content-Type-Options"]; len(v) != 1 || v[0] != "nosniff" { // as the first link of a server's chain leaves it
		h.Set("X-Content-Type-Options", "nosniff")
	}
	w.WriteHeader(code)
}

// acceptsGzip reports whether an Accept-Encoding header names gzip with a weight above 0. A wildcard does not: who wants
// gzip says so.
func acceptsGzip(fields []string) bool {
	for _, field := range fields {
		for field != "" {
			var element string
			element, field = cut(field, ',')
			coding, parameter := cut(element, ';')
			if !strings.EqualFold(coding, "gzip") && !strings.EqualFold(coding, "x-gzip") {
				continue
			}
			name, value, _ := strings.Cut(parameter, "=")
			weight, ok := parseWeight(value)
			if parameter == "" || strings.EqualFold(name, "q") && ok && weight > 0 {
				return true
			}
		}
	}
	return false
}
