package negotiate

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/yaml"
	"github.com/kindwright/kindwright/status"
)

// MaxBodyBytes is the longest request body that is read unless a caller says otherwise: 3 MiB.
const MaxBodyBytes = 3 << 20

// BodyOptions say how [ReadBody] reads.
type BodyOptions struct {
	// Limit is the greatest number of bytes; zero means MaxBodyBytes. It bounds YAML, and the JSON made of it, as well.
	Limit int64

	// Authenticated says that the caller proved who they are. Only then is a body without a Content-Type taken for JSON
	// (B17), and only when no page in a browser had it sent (H10): browsers send client certificates of themselves, and
	// they ask the server before they send JSON for the page of another site, but not before they send a body without a type.
	Authenticated bool
}

// ReadBody reads the body of r as one JSON text, whose syntax is not checked unless it came as YAML. An empty body is
// empty, whatever its type.
//
// The errors are *status.Error: 415 for a media type other than application/json and application/yaml, for a character
// set other than UTF-8 and for a content coding (B5, B17); 413 beyond the limit (B4); 400 for a body that ends early and
// for bad YAML; 504 when the context of r ends first. Nothing beyond the limit is buffered, and a body of a wrong type is
// not read at all.
func ReadBody(w http.ResponseWriter, r *http.Request, o BodyOptions) ([]byte, error) {
	limit := o.Limit
	if limit <= 0 {
		limit = MaxBodyBytes
	}
	mediaType, err := bodyType(r, o.Authenticated)
	if err != nil {
		return nil, err
	}
	data, err := ReadRaw(w, r, limit)
	if err != nil || len(data) == 0 || mediaType == JSON {
		return data, err
	}
	return FromYAML(data, limit)
}

// FromYAML returns a YAML document, which may be JSON, as JSON of at most limit bytes. The error is a *status.Error, 400 or
// 413.
func FromYAML(data []byte, limit int64) ([]byte, error) {
	out, err := yaml.ToJSON(data, int(limit))
	switch {
	case errors.Is(err, yaml.ErrTooLarge) || err == nil && int64(len(out)) > limit:
		return nil, status.TooLarge(limit)
	case err != nil:
		return nil, status.BadRequest("error converting YAML to JSON: %s", err)
	}
	return out, nil
}

// bodyType returns the media type of the body of r.
func bodyType(r *http.Request, authenticated bool) (MediaType, error) {
	fields := r.Header["Content-Type"]
	unsupported := func() error { return status.UnsupportedMediaType([]string{JSON.String(), YAML.String()}) }
	if len(fields) == 0 || len(fields) == 1 && trim(fields[0]) == "" {
		if (!authenticated || fromBrowser(r)) && r.ContentLength != 0 {
			return 0, unsupported()
		}
		return JSON, nil
	}
	if len(fields) > 1 {
		return 0, unsupported() // two answers to one question
	}
	full, ok := ContentType(fields[0])
	switch {
	case ok && full == JSON.String():
		return JSON, nil
	case ok && full == YAML.String():
		return YAML, nil
	}
	return 0, unsupported()
}

// fromBrowser tells whether a browser sent r and says that a page had it do so: they put Origin on every POST, and
// Sec-Fetch-Site on everything. Other clients have no reason to.
func fromBrowser(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return len(r.Header["Origin"]) > 0 || site != "" && site != "none"
}

// ContentType returns the media type that a Content-Type header names, in lower case and without parameters. It reports
// false for a header that is not well-formed and for text in another character set than UTF-8, which nothing here reads.
func ContentType(header string) (mediaType string, ok bool) {
	mediaType, parameters, err := mime.ParseMediaType(header)
	if err != nil {
		return "", false
	}
	if charset, ok := parameters["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return "", false
	}
	return mediaType, true
}

// ReadRaw reads the body of r, of whatever media type, up to limit bytes. Its errors are those of [ReadBody].
func ReadRaw(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if coding := trim(strings.Join(r.Header["Content-Encoding"], ",")); coding != "" && !strings.EqualFold(coding, "identity") {
		w.Header().Set("Accept-Encoding", "identity") // RFC 9110, 15.5.16: what would have been accepted
		return nil, status.UnsupportedMediaType([]string{"any of them without a Content-Encoding"})
	}
	if r.ContentLength > limit {
		return nil, status.TooLarge(limit)
	}
	if r.Body == nil || r.ContentLength == 0 {
		return nil, nil
	}
	ctx := r.Context()
	release := interruptible(ctx, w)
	data, err := readAll(http.MaxBytesReader(w, r.Body, limit), r.ContentLength)
	release()
	switch {
	case err == nil:
		return data, nil
	case ctx.Err() != nil:
		return nil, status.From(ctx.Err())
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, status.TooLarge(limit)
	}
	return nil, status.BadRequest("the body of the request could not be read to its end")
}

// interruptible lets the end of ctx interrupt reads of the request's body, which know nothing of contexts. The function
// returned must be called when reading is over.
//
// A writer that cannot set deadlines belongs to a server whose reads end otherwise, or to a test: then nothing is done.
func interruptible(ctx context.Context, w http.ResponseWriter) (release func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	connection := http.NewResponseController(w)
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		_ = connection.SetReadDeadline(time.Unix(1, 0)) // long past
	})
	return func() {
		if stop() {
			return
		}
		<-interrupted
		_ = connection.SetReadDeadline(time.Time{}) // it may have come after the last byte
	}
}

// firstRead bounds what is allocated on the word of a client alone.
const firstRead = 64 << 10

// readAll reads until the end; length is what the client announced, -1 if nothing.
func readAll(r io.Reader, length int64) ([]byte, error) {
	data := make([]byte, 0, min(max(length+1, 512), firstRead))
	for {
		n, err := r.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if err == io.EOF {
			return data, nil
		}
		if err != nil {
			return nil, err
		}
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
	}
}
