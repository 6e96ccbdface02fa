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

// WriteError answers r with a Status document that tells about err (ERR-19), in the media type that the client accepts,
// else in JSON. Protobuf is among them whatever the resource is: who asks for it can read a Status. Errors that are not *status.Error are internal ones, whose text stays here; see [status.From]. The header
// repeats when to try again (ERR-24) and carries the warnings collected so far.
//
// What is still to come of the body is waited for half a second at most, and then the connection ends.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	failure := status.From(err)
	if failure == nil {
		failure = status.Internal(errors.New("an error was announced, and there is none"))
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
		h.Del(name) // it spoke of the answer that did not come about
	}
	leaveUnread(w, r)
	form := errorForm(r)
	if form.MediaType == Protobuf {
		if message, err := statusMessage(document); err == nil {
			document = message
		} else {
			form = Result{}
		}
	}
	_ = new(Output).Write(w, r, form, failure.Code(), document) // nobody is left to tell
}

// statusMessage returns the protobuf form of the JSON of a Status. The type is described anew for each: clients that speak
// protobuf are few, and errors are the smaller part of what they get.
func statusMessage(document []byte) ([]byte, error) {
	d, ok, err := protobuf.Describe(reflect.TypeFor[meta.Status]())
	if err != nil || !ok {
		return nil, errors.Join(err, errors.New("a Status has no protobuf form"))
	}
	return d.AppendObject(nil, "v1", "Status", document)
}

// readable replaces what is not UTF-8, such as a name that was cut in the middle of a character: what the client did wrong
// must not become an error of the server because of how it is told.
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

// drain is how long a refused body may go on.
const drain = 500 * time.Millisecond

// leaveUnread keeps net/http from waiting without end for the rest of a body that was refused. Before it answers it reads on
// for a while, to use the connection again, and a client that announced a body may never send it (B4, H4).
func leaveUnread(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(drain)) // not every writer has one; then the server's own must do
	}
}

// errorForm is the form of an error. Whether the answer would have been a Table plays no part in it.
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
