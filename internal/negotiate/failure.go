package negotiate

import (
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/protobuf"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// WriteError responds to r with err as a Status document. It uses the media type that the client
// accepts, or else JSON. It offers protobuf for every resource, because a client that requests it
// can decode a Status. An error that is not a *status.Error is an internal one, and its text is not
// sent; see [status.From]. The header repeats when to retry and contains the warnings collected so
// far. A document in JSON ends with a newline, as Kubernetes' do: clients print it as it is, and
// some compare it.
//
// WriteError waits at most half a second for the rest of the request body and then closes the
// connection.
//
// Source: ERR-19, ERR-24.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	failure := status.From(err)
	if failure == nil {
		failure = status.Internal(errors.New("WriteError was called without an error"))
	}
	if x := request.ExchangeFrom(r.Context()); x != nil {
		x.Record.KeepStatus(failure.Status())
	}
	document, merr := json.Marshal(failure.Status())
	if merr != nil {
		document, merr = json.Marshal(readable(failure.Status()))
	}
	if merr != nil {
		failure = status.Internal(merr)
		document, _ = json.Marshal(failure.Status())
	}
	h := w.Header()
	if seconds := failure.RetryAfterSeconds(); seconds > 0 {
		h.Set("Retry-After", strconv.Itoa(seconds))
	}
	for _, name := range []string{"Content-Encoding", "Content-Length", "Etag", "Expires", "Last-Modified"} {
		h.Del(name) // set for the response that is now replaced
	}
	limitDrain(w, r)
	form := errorForm(r)
	if form.MediaType == Protobuf {
		if message, err := statusMessage(document); err == nil {
			document = message
		} else {
			form = Result{}
		}
	}
	// The client is gone: there is no one to report to.
	_ = new(Output).write(w, r, form, failure.Code(), document, true)
}

// statusMessage encodes the JSON of a Status as protobuf. It describes the type for each error,
// which is expensive, but few clients use protobuf and errors are rare.
func statusMessage(document []byte) ([]byte, error) {
	d, ok, err := protobuf.Describe(reflect.TypeFor[meta.Status]())
	if err != nil || !ok {
		return nil, errors.Join(err, errors.New("a Status has no protobuf form"))
	}
	return d.AppendObject(nil, "v1", "Status", document)
}

// readable replaces invalid UTF-8, for example in a name that was cut within a character. A client
// error must not become a server error because its message cannot be encoded.
func readable(s meta.Status) meta.Status {
	text := func(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
	s.Message, s.Continue = text(s.Message), text(s.Continue)
	if s.Details == nil {
		return s
	}
	d := *s.Details
	d.Name, d.Group, d.Kind, d.UID = text(d.Name), text(d.Group), text(d.Kind), meta.UID(text(string(d.UID)))
	d.Causes = slices.Clone(d.Causes)
	for i := range d.Causes {
		d.Causes[i].Message, d.Causes[i].Field = text(d.Causes[i].Message), text(d.Causes[i].Field)
	}
	s.Details = &d
	return s
}

// drain limits how long the rest of a rejected body is read.
const drain = 500 * time.Millisecond

// limitDrain limits how long the server waits for the rest of a rejected body. To reuse the
// connection, net/http reads on before it responds, but a client that announced a body may never
// send it.
//
// The deadline of an HTTP/1 connection must not stay: once net/http has all of a body, it reads on to
// see whether the client leaves. A deadline that ends this read cancels the contexts of all later
// requests of the connection.
//
// Source: B4, H4.
func limitDrain(w http.ResponseWriter, r *http.Request) {
	if x := request.ExchangeFrom(r.Context()); r.ContentLength == 0 || x != nil && x.Sent != nil {
		return // there is no rest
	}
	connection, began := http.NewResponseController(w), time.Now()
	switch {
	case connection.SetReadDeadline(began.Add(drain)) != nil: // the server's own timeouts apply
	case r.ProtoMajor != 1 || r.Body == nil: // the deadline is that of the request
	case r.Header.Get("Expect") != "": // the body may be on no way, and then nothing is read
		w.Header().Set("Connection", "close")
	default:
		_ = r.Body.Close() // reads on for a little, and marks the connection for closing if that was not all
		Undeadline(w, r, began.Add(drain))
	}
}

// Undeadline takes back a deadline for reads of an HTTP/1 connection. If it may have passed, the
// connection ends with this answer: net/http may have taken it for the end of the client, and would
// cancel all later requests. It must be called before the answer begins.
func Undeadline(w http.ResponseWriter, r *http.Request, deadline time.Time) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	if r.ProtoMajor == 1 && !time.Now().Before(deadline) {
		w.Header().Set("Connection", "close")
	}
}

// errorForm returns the form of an error. It does not matter whether the response would have been a
// Table.
func errorForm(r *http.Request) Result {
	domain := ""
	if info := request.From(r.Context()); info != nil {
		domain = info.Query.GroupDomain()
	}
	form, err := Negotiate(r, Offer{GroupDomain: domain, Protobuf: true, anyForm: true})
	if err != nil {
		return Result{Pretty: pretty(r, false)}
	}
	return form
}
