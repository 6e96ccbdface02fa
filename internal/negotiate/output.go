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
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/kindwright/kindwright/internal/cbor"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/internal/yaml"
	"github.com/kindwright/kindwright/status"
)

// DefaultMaxYAML is the default limit for YAML responses, in bytes of JSON. 5 MiB are enough for
// any single object and for short lists.
const DefaultMaxYAML = 5 << 20

// quickYAML is the size, in bytes of JSON, up to which documents are converted to YAML without
// waiting for others.
const quickYAML = 64 << 10

// Output writes the responses of one server. The zero value does not compress. It is safe for
// concurrent use and must not be copied after first use.
type Output struct {
	// Compress enables gzip for clients that accept it (GZIP-01, GZIP-02).
	Compress bool

	// Threshold is the size that a body must exceed to be compressed. Zero compresses every body.
	// Kubernetes uses 128 KiB (GZIP-05).
	Threshold int

	// MaxYAML is the maximum size of YAML responses, in bytes of JSON. Zero means DefaultMaxYAML.
	// The conversion may take a hundred times the size of the document in memory, so long documents
	// are converted one at a time.
	MaxYAML int

	compressors sync.Pool // of *compressor
	deflaters   sync.Pool // of *flate.Writer

	yamlOnce sync.Once
	yamlTurn chan struct{} // semaphore for the conversion of long documents
	yamlHeld chan struct{} // and for those that are held until the client has read them
}

// At most maxYAMLHeld long YAML documents are held at once. Another one waits for yamlPatience, which is
// less than the time that a client has to read a piece.
const (
	maxYAMLHeld  = 8
	yamlPatience = 20 * time.Second
)

// Write responds to r with one JSON document in the negotiated form. The document must be valid.
// Write does not retain it. The error is a *status.Error if nothing was sent, and otherwise the
// error of the connection.
func (o *Output) Write(w http.ResponseWriter, r *http.Request, form Result, code int, document []byte) error {
	return o.write(w, r, form, code, document, false)
}

// write is Write. With newline, JSON that is sent as it is ends with one, as indented JSON does
// always. The newline is not part of the recorded document, which may become part of a line.
func (o *Output) write(
	w http.ResponseWriter, r *http.Request, form Result, code int, document []byte, newline bool,
) error {
	if x := request.ExchangeFrom(r.Context()); x != nil {
		x.Document, x.Object = document, nil
	}
	a := o.Start(w, r, form, code)
	defer a.Abort()
	if form.MediaType == CBOR {
		encoded, err := cbor.Append(make([]byte, 0, len(document)), document)
		if err != nil {
			return status.Internal(err)
		}
		return a.sendWhole(encoded)
	}
	if form.MediaType != YAML && !form.Pretty {
		if newline && form.MediaType == JSON {
			document = append(document, '\n')
		}
		return a.sendWhole(document)
	}
	if _, err := a.Write(document); err != nil {
		return err
	}
	return a.Close()
}

// WriteObject responds to r with a stored object of the given size, which writes itself. It avoids
// the copy of the object that Write needs. If the object must be converted or compressed, it sends
// nothing and returns done == false.
func (o *Output) WriteObject(w http.ResponseWriter, r *http.Request, form Result, code, size int, object io.WriterTo) (done bool, err error) {
	switch {
	case form.MediaType != JSON || form.As != Object || form.Pretty || size > quickObject:
		return false, nil
	case o.Packs(r, size):
		return false, nil
	}
	if x := request.ExchangeFrom(r.Context()); x != nil {
		x.Object = object
	}
	o.begin(w, r, form, code, size)
	if r.Method == http.MethodHead {
		return true, nil
	}
	_, err = object.WriteTo(w)
	return true, err
}

// Packs reports whether a response to r with a body of the given size is compressed.
func (o *Output) Packs(r *http.Request, size int) bool {
	return o.Compress && size > o.Threshold && r.Method != http.MethodHead && acceptsGzip(r.Header["Accept-Encoding"])
}

// Pack compresses a body for [Output.WritePacked].
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

// WritePacked responds to r with a body that Pack compressed. The caller has checked
// [Output.Packs]. The error is that of the connection.
func (o *Output) WritePacked(w http.ResponseWriter, r *http.Request, form Result, code int, packed []byte) error {
	w.Header()["Content-Encoding"] = []string{"gzip"}
	o.begin(w, r, form, code, len(packed))
	_, err := w.Write(packed)
	return err
}

// quickObject is the maximum size of an object that writes itself. Longer objects are assembled
// first, because net/http would flush their chunks one by one.
const quickObject = 3 << 10

// Start starts a response to r whose JSON document the caller writes in chunks. For CBOR, the
// caller writes CBOR. Nothing is sent
// until the first chunk leaves the buffers. Until then, the caller may call [Answer.Abort] and
// write an error instead. Streams of events must use [Begin], because they must not be buffered.
func (o *Output) Start(w http.ResponseWriter, r *http.Request, form Result, code int) *Answer {
	a := &Answer{output: o, w: w, request: r, form: form, code: code, head: r.Method == http.MethodHead, length: -1}
	a.gzip = o.Compress && !a.head && acceptsGzip(r.Header["Accept-Encoding"])
	a.text = bodyWriter{a}
	if form.Pretty {
		a.text = &indenter{to: bodyWriter{a}}
	}
	return a
}

// Answer is a response that is being written. Only one goroutine may use it. It must end with Close
// or Abort.
type Answer struct {
	output  *Output
	w       http.ResponseWriter
	request *http.Request
	form    Result
	code    int

	head    bool // no body is sent (HEAD)
	gzip    bool // the client accepts gzip
	started bool // the header has been sent
	length  int  // of the whole body; negative if unknown

	text       io.Writer    // receives the JSON document, indents it if requested, and calls send
	held       bytes.Buffer // for YAML the whole document, otherwise the body below the threshold
	letGo      func()       // of a long YAML document, ends its turn to be held; nil for any other
	compressor *compressor  // not nil after compression has started
	parts      *partWriter  // not nil for a response made of parts
}

// Write writes the next chunk of the JSON document. A *status.Error means that the document cannot
// be sent in this form and that nothing has been sent. Other errors are those of the connection.
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
	if a.letGo == nil && a.held.Len()+len(p) > quickYAML {
		a.output.makeTurns()
		ctx, cancel := context.WithTimeout(a.request.Context(), yamlPatience)
		letGo, err := take(ctx, a.output.yamlHeld)
		cancel()
		if err != nil {
			return 0, status.From(err)
		}
		a.letGo = letGo
	}
	return a.held.Write(p)
}

// Started reports whether anything has been sent. It is then too late to respond with an error.
func (a *Answer) Started() bool { return a.started }

// Close ends the document and sends what is still buffered. A *status.Error means that nothing has
// been sent.
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
		a.held = bytes.Buffer{}
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

// toYAML converts the buffered document to YAML. The error is a *status.Error. Its code is 504 if
// the request ends while it waits for its turn.
func (a *Answer) toYAML() ([]byte, error) {
	if a.held.Len() > quickYAML {
		release, err := take(a.request.Context(), a.output.yamlTurn)
		if err != nil {
			return nil, status.From(err)
		}
		defer release()
	}
	document, err := yaml.FromJSON(a.held.Bytes())
	if err != nil {
		return nil, status.Internal(fmt.Errorf("encode the response as YAML: %w", err))
	}
	return document, nil
}

func (o *Output) makeTurns() {
	o.yamlOnce.Do(func() { o.yamlTurn, o.yamlHeld = make(chan struct{}, 1), make(chan struct{}, maxYAMLHeld) })
}

// take waits until there is room in a semaphore, or until ctx ends.
func take(ctx context.Context, turn chan struct{}) (release func(), err error) {
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Abort releases the resources of the response. If Started is true, the caller must also close the
// connection. Otherwise the client would take an incomplete response for a complete one. Abort may
// be called several times, also after Close.
func (a *Answer) Abort() {
	if a.compressor != nil {
		a.output.release(a.compressor)
		a.compressor = nil
	}
	a.held = bytes.Buffer{}
	if a.letGo != nil {
		a.letGo()
		a.letGo = nil
	}
}

// bodyWriter adapts send to io.Writer.
type bodyWriter struct{ a *Answer }

func (b bodyWriter) Write(p []byte) (int, error) {
	if err := b.a.send(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// send writes the next bytes of the body. It starts to compress once the threshold is exceeded.
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

// sendWhole sends a complete body, compressed if it exceeds the threshold.
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

// sendPlain sends a complete body uncompressed.
func (a *Answer) sendPlain(body []byte) error {
	a.length = len(body)
	a.start()
	_, err := a.w.Write(body)
	return err
}

// compress starts compression with the buffered bytes and p.
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

// start sends the header unless it has been sent.
func (a *Answer) start() {
	if a.started {
		return
	}
	a.started = true
	a.output.begin(a.w, a.request, a.form, a.code, a.length)
}

// begin sends the header. length is negative if it is unknown.
func (o *Output) begin(w http.ResponseWriter, r *http.Request, form Result, code, length int) {
	h := w.Header()
	values := [...]string{form.ContentType(), "Accept-Encoding", ""} // one array saves allocations
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

// compressor is a gzip.Writer with a buffer behind it, because gzip writes chunks of only a quarter
// of a kilobyte.
type compressor struct {
	*gzip.Writer
	out *bufio.Writer
}

// compressedPiece is the size of the chunks of a compressed body. With the frame header of HTTP/2
// it fills one TLS record.
const compressedPiece = 16<<10 - 9

// compressor returns a compressor that writes to w. Compressors have large tables, so they are
// pooled.
func (o *Output) compressor(w io.Writer) *compressor {
	if c, ok := o.compressors.Get().(*compressor); ok {
		c.reset(w)
		return c
	}
	out := bufio.NewWriterSize(w, compressedPiece)
	c, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
	if err != nil {
		c = gzip.NewWriter(out) // cannot happen: the level is a constant of the library
	}
	return &compressor{Writer: c, out: out}
}

// release returns a compressor to the pool.
func (o *Output) release(c *compressor) {
	c.reset(io.Discard)
	o.compressors.Put(c)
}

func (c *compressor) reset(w io.Writer) {
	c.out.Reset(w)
	c.Writer.Reset(c.out)
}

// Close ends the body and flushes the buffer.
func (c *compressor) Close() error {
	if err := c.Writer.Close(); err != nil {
		return err
	}
	return c.out.Flush()
}

// Begin sends the header of a response to r, with the warnings collected so far.
func Begin(w http.ResponseWriter, r *http.Request, contentType string, code int) {
	begin(w, r, []string{contentType}, code)
}

func begin(w http.ResponseWriter, r *http.Request, contentType []string, code int) {
	h := w.Header()
	if x := request.ExchangeFrom(r.Context()); x != nil {
		x.Warnings.SetHeader(h)
	}
	h["Content-Type"] = contentType
	// The first handler of the chain usually has set it; then there is nothing to allocate.
	if v := h["X-Content-Type-Options"]; len(v) != 1 || v[0] != "nosniff" {
		h.Set("X-Content-Type-Options", "nosniff")
	}
	w.WriteHeader(code)
}

// acceptsGzip reports whether an Accept-Encoding header names gzip with a weight above 0. A
// wildcard is not sufficient: clients that want gzip name it.
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
