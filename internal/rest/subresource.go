package rest

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/negotiate"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// taken describes the documents that are sent.
func (c *call) taken() *engine.Kind {
	if c.sub != nil {
		if d := c.sub.Document(c.info.Verb); d != nil {
			return d
		}
	}
	return c.served.Kind
}

// ask answers a question about an object.
func (c *call) ask() error {
	form, err := negotiate.Negotiate(c.r, c.documentOffer())
	if err != nil {
		return err
	}
	result, err := c.at.Ask(c.r.Context(), c.info.Query.Raw)
	if err != nil {
		return err
	}
	return c.answerDocument(form, http.StatusOK, result)
}

// act does something with an object (PATH-21). Neither what is sent nor the answer is an object of the kind, so that there is no
// other form of them than their own.
func (c *call) act(do func(body []byte) (*registry.Result, error)) error {
	form, err := negotiate.Negotiate(c.r, c.documentOffer())
	if err != nil {
		return err
	}
	body, err := c.body(c.taken().Messages)
	if err != nil {
		return err
	}
	result, err := do(body)
	request.ExchangeFrom(c.r.Context()).Body.Release()
	if err != nil {
		return err
	}
	code := http.StatusOK
	if result.Created {
		code = http.StatusCreated
	}
	return c.answerDocument(form, code, result)
}

// documentOffer is what documents can be answered as that are no stored objects.
func (c *call) documentOffer() negotiate.Offer {
	return negotiate.Offer{GroupDomain: c.domain, Protobuf: c.shown.Messages != nil}
}

func (c *call) answerDocument(form negotiate.Result, code int, result *registry.Result) error {
	d := c.shown.Messages
	if result.Kind == (meta.GroupVersionKind{Version: "v1", Kind: "Status"}) {
		d = c.proto.status()
		c.keepStatus(result.Document)
	}
	return c.document(form, code, d, result.Kind.GroupVersion().String(), result.Kind.Kind, result.Document)
}

// stream sends what a subresource has to say in bytes of its own (MODEL-08).
func (c *call) stream() error {
	if !c.takesStream() {
		return status.NotAcceptable([]string{c.sub.MediaType()})
	}
	ctx, release := c.untilDraining()
	defer release()
	source, err := c.at.Open(ctx, c.info.Query.Raw)
	if err != nil {
		return err
	}
	defer source.Close()
	c.w.Header().Set("Content-Type", c.sub.MediaType())
	if c.r.Method == http.MethodHead {
		c.w.WriteHeader(http.StatusOK)
		return nil
	}
	err = c.pump(source)
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return nil
	case ctx.Err() != nil && c.r.Context().Err() == nil:
		return nil // the server is about to stop: what was said is whole as far as it goes
	case !isConnectionError(err) && c.r.Context().Err() == nil:
		c.opts.Logger.Error(err, "a stream broke off", guard.WithStack(err,
			"resource", c.served.Resource.GroupResource().String(), "subresource", c.sub.Name)...)
	}
	panic(http.ErrAbortHandler) // nobody may take a part for the whole
}

// takesStream tells whether the client takes the media type of the stream. Clients ask subresources for the documents that they usually
// get, and take what comes.
func (c *call) takesStream() bool {
	want := negotiate.Offer{GroupDomain: c.domain, Protobuf: true}
	if _, err := negotiate.Negotiate(c.r, want); err == nil {
		return true
	}
	return negotiate.Accepts(c.r, c.sub.MediaType())
}

// streamBytes is how much of a stream is read at once.
const streamBytes = 32 << 10

// pump sends what it reads, each piece at once and within its own time.
func (c *call) pump(source io.Reader) error {
	connection := http.NewResponseController(c.w)
	late := &writeLimit{connection: connection, after: c.opts.WatchWrite}
	_ = connection.SetWriteDeadline(time.Time{}) // the host's is for whole answers
	defer func() {
		late.close()
		c.giveBack(connection)
	}()
	c.w.WriteHeader(http.StatusOK)
	buf := make([]byte, streamBytes)
	for {
		n, err := source.Read(buf)
		if n > 0 || err == nil {
			late.begin()
			if _, werr := c.w.Write(buf[:n]); werr != nil {
				return connectionError{werr}
			}
			if werr := connection.Flush(); werr != nil && !errors.Is(werr, http.ErrNotSupported) {
				return connectionError{werr}
			}
			late.pause()
		}
		if err != nil {
			return err
		}
	}
}

// methods returns the value of the header Allow for the path of the request (PATH-15): the methods whose
// verbs the path has.
func (c *call) methods() string {
	var out []string
	for _, m := range allowed[c.info.IsCollection()] {
		if _, err := c.engine.ResolveIn(c.served, m.verb, c.target(m.verb)); err == nil {
			out = append(out, m.methods)
		}
	}
	return strings.Join(out, ", ")
}

// allowed lists the verbs of collections (true) and of objects (false) with their methods.
var allowed = map[bool][]struct{ verb, methods string }{
	true:  {{request.VerbList, "GET, HEAD"}, {request.VerbCreate, "POST"}, {request.VerbDeleteCollection, "DELETE"}},
	false: {{request.VerbGet, "GET, HEAD"}, {request.VerbCreate, "POST"}, {request.VerbUpdate, "PUT"}, {request.VerbPatch, "PATCH"}, {request.VerbDelete, "DELETE"}},
}
