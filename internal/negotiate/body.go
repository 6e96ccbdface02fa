package negotiate

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/internal/cbor"
	"github.com/kindwright/kindwright/internal/flow"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/internal/yaml"
	"github.com/kindwright/kindwright/status"
)

// MaxBodyBytes is the default limit for request bodies: 3 MiB.
const MaxBodyBytes = 3 << 20

// BodyOptions control how [ReadBody] reads.
type BodyOptions struct {
	// Limit is the maximum number of bytes. Zero means MaxBodyBytes. For YAML, it also limits the
	// resulting JSON.
	Limit int64

	// Authenticated states that the caller has proved their identity. Only then may a body lack a
	// Content-Type and be treated as JSON, and only if no web page in a browser sent it. Browsers
	// attach client certificates automatically. They send a preflight request before they send JSON
	// on behalf of another site, but not before they send a body without a type. An empty body needs
	// no type: the server has rejected the pages of other sites before it reads a body; see
	// request.FromOtherSite.
	//
	// Source: B17, H10.
	Authenticated bool

	// YAML, if not nil, is called with the body as it was sent if that is YAML.
	YAML func(sent []byte)
}

// ReadBody reads the body of r as JSON. It only checks the syntax of YAML and CBOR, which it
// converts. An empty body is empty for every media type.
//
// Errors are *status.Error. The code is 415 for a media type other than application/json and
// application/yaml, and application/cbor where the server has it, a character set other than UTF-8, and a content coding; 413 for a body above
// the limit; 400 for a body that ends early and for invalid YAML; and 504 if the context of r ends
// first. ReadBody never buffers more than the limit and does not read a body of a wrong type at
// all.
//
// Source: B4, B5, B17.
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
	switch {
	case err != nil || len(data) == 0 || mediaType == JSON:
		return data, err
	case mediaType == CBOR:
		return FromCBOR(data, limit)
	}
	if o.YAML != nil {
		o.YAML(data)
	}
	return FromYAML(data, limit)
}

// FromCBOR converts a CBOR document to JSON of at most limit bytes. The error is a *status.Error
// with code 400 or 413.
func FromCBOR(data []byte, limit int64) ([]byte, error) {
	out, err := cbor.ToJSON(data, int(limit))
	switch {
	case errors.Is(err, cbor.ErrTooLarge):
		return nil, status.TooLarge(limit)
	case err != nil:
		return nil, status.BadRequest("error converting CBOR to JSON: %s", err)
	}
	return out, nil
}

// FromYAML converts a YAML document, which may be JSON, to JSON of at most limit bytes. The error
// is a *status.Error with code 400 or 413.
func FromYAML(data []byte, limit int64) ([]byte, error) {
	out, err := yaml.RequestToJSON(data, int(limit))
	switch {
	case errors.Is(err, yaml.ErrTooManyNodes), errors.Is(err, yaml.ErrTooLong):
		return nil, status.TooLarge(limit).WithMessage("error converting YAML to JSON: " + err.Error() + "; JSON may have more")
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
	unsupported := func() error {
		types := []string{JSON.String(), YAML.String()}
		if writesCBOR(r) {
			types = append(types, CBOR.String())
		}
		return status.UnsupportedMediaType(types)
	}
	if len(fields) == 0 || len(fields) == 1 && trim(fields[0]) == "" {
		if (!authenticated || fromBrowser(r)) && r.ContentLength != 0 {
			return 0, unsupported()
		}
		return JSON, nil
	}
	if len(fields) > 1 {
		return 0, unsupported() // contradictory types
	}
	full, ok := ContentType(fields[0])
	switch {
	case ok && full == JSON.String():
		return JSON, nil
	case ok && full == YAML.String():
		return YAML, nil
	case ok && full == CBOR.String() && writesCBOR(r):
		return CBOR, nil
	}
	return 0, unsupported()
}

// fromBrowser reports whether a browser sent r on behalf of a web page. Browsers add Origin to
// every POST and Sec-Fetch-Site to every request. Other clients have no reason to send either.
func fromBrowser(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return len(r.Header["Origin"]) > 0 || site != "" && site != "none"
}

// ContentType returns the media type of a Content-Type header in lower case, without parameters. ok
// is false if the header is malformed or names a character set other than UTF-8, because this
// package only reads UTF-8.
func ContentType(header string) (mediaType string, ok bool) {
	if t := JSON.String(); header == t {
		return t, true // as nearly everybody writes it
	}
	mediaType, parameters, err := mime.ParseMediaType(header)
	if err != nil {
		return "", false
	}
	if charset, ok := parameters["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return "", false
	}
	return mediaType, true
}

// ReadRaw reads up to limit bytes of the body of r, whatever its media type. Its errors are those
// of [ReadBody]. It also returns 401 or 403 if the credential or the permission of the caller ended
// while the body was on its way.
func ReadRaw(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if coding := trim(strings.Join(r.Header["Content-Encoding"], ",")); coding != "" && !strings.EqualFold(coding, "identity") {
		// RFC 9110, section 15.5.16: state which codings are accepted.
		w.Header().Set("Accept-Encoding", "identity")
		return nil, status.UnsupportedMediaType([]string{"any of them without a Content-Encoding"})
	}
	if r.ContentLength > limit {
		Linger(w, r)
		return nil, status.TooLarge(limit)
	}
	if r.Body == nil || r.ContentLength == 0 {
		return nil, nil
	}
	ctx := r.Context()
	began := time.Now()
	x := request.ExchangeFrom(ctx)
	start, hold := began, (*flow.Hold)(nil)
	if x != nil {
		start, hold = x.Start, &x.Body
	}
	reading := interruptible(ctx, w, r, start.Add(bodyTime))
	waiting := yieldSoon(x, w)
	data, err := readAll(ctx, r.Body, r.ContentLength, limit, hold)
	if waiting.end() {
		err = errNoRoom
	}
	reading.release()
	switch {
	case err != nil && reading.late.Load():
		return nil, status.From(context.DeadlineExceeded)
	case err == nil && int64(len(data)) > limit:
		Linger(w, r)
		return nil, status.TooLarge(limit)
	case err == nil:
		if x != nil {
			if x.Seat != nil {
				if err := x.Seat.Return(ctx); err != nil {
					return nil, err
				}
			}
			if x.Body.Decode(ctx, max(int64(len(data)), x.Changes-flow.Free)) != nil {
				return nil, status.TooManyRequests("the bodies of too many requests wait to be decoded, please try again later", retryWhenBusy)
			}
			if err := x.Recheck(ctx, began); err != nil {
				return nil, err
			}
			x.Sent = data
		}
		return data, nil
	case ctx.Err() != nil:
		return nil, status.From(ctx.Err())
	}
	if errors.Is(err, errNoRoom) {
		Linger(w, r)
		return nil, status.TooManyRequests("too much memory is taken by the bodies of other requests, please try again later", retryWhenBusy)
	}
	return nil, status.BadRequest("the request body could not be read completely")
}

// bodyTime is how long after its beginning a request may still wait for its body. It is shorter than the
// time of a write: what is complete has time left to be carried out, and connections that send a byte
// now and then are closed within 35 seconds, also when there are thousands (H4).
const bodyTime = 30 * time.Second

// interruptible makes the end of ctx, and the time last, interrupt reads of the request body. net/http does
// not do this by itself. The caller must release it when it has finished reading.
//
// If the writer does not support deadlines, interruptible has no effect. This is the case in tests
// and in servers with another way to end reads.
func interruptible(ctx context.Context, w http.ResponseWriter, r *http.Request, last time.Time) *interruption {
	i := &interruption{w: w, r: r}
	if ctx.Done() == nil {
		return i
	}
	i.running.Add(2)
	i.stop = context.AfterFunc(ctx, i.interrupt)
	i.last = time.AfterFunc(time.Until(last), func() {
		i.late.Store(true)
		i.interrupt()
	})
	return i
}

// interruption is what ends reads of a body when a context ends, or when it takes too long.
type interruption struct {
	w       http.ResponseWriter
	r       *http.Request
	stop    func() bool // nil if the context does not end
	last    *time.Timer
	late    atomic.Bool    // the body has taken too long
	running sync.WaitGroup // interrupt, twice, unless it was stopped
}

func (i *interruption) interrupt() {
	defer i.running.Done()
	_ = http.NewResponseController(i.w).SetReadDeadline(time.Unix(1, 0)) // in the past: interrupts the read at once
}

func (i *interruption) release() {
	if i.stop == nil {
		return
	}
	unstopped := 2
	for _, stop := range []func() bool{i.stop, i.last.Stop} {
		if stop() {
			i.running.Done()
			unstopped--
		}
	}
	if unstopped == 0 {
		return
	}
	i.running.Wait()
	// The deadline may have been set after the last byte.
	Undeadline(i.w, i.r, time.Unix(1, 0))
}

// yieldAfter is how long a request keeps its seat while it waits for its body. Most bodies are there before.
const yieldAfter = 20 * time.Millisecond

// arrival is the wait for a body.
type arrival struct {
	timer   *time.Timer   // nil if the request has no seat
	yielded chan struct{} // closed when the timer has done its work
	crowded bool          // too many others wait; set before yielded is closed
}

// yieldSoon gives the seat of a request back if its body does not come soon. A client that never ends its
// body would keep others from being served. The caller must end the arrival after it has read.
func yieldSoon(x *request.Exchange, w http.ResponseWriter) *arrival {
	a := &arrival{}
	if x == nil || x.Seat == nil {
		return a
	}
	a.yielded = make(chan struct{})
	a.timer = time.AfterFunc(yieldAfter, func() {
		defer close(a.yielded)
		if a.crowded = !x.Seat.Yield(); a.crowded {
			_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) // interrupts the read at once
		}
	})
	return a
}

// end reports whether the body was cut off because too many others wait for theirs.
func (a *arrival) end() bool {
	if a.timer == nil || a.timer.Stop() {
		return false
	}
	<-a.yielded
	return a.crowded
}

// firstRead limits the allocation that is based only on the Content-Length that a client claims.
const firstRead = 64 << 10

// readAll reads to the end, or one byte more than the limit. length is the Content-Length, or -1 if there is none. A client that
// stalls holds at most about four times what it has sent. The hold, which may be nil, is asked before the
// body takes more.
func readAll(ctx context.Context, r io.Reader, length, limit int64, hold *flow.Hold) ([]byte, error) {
	data := make([]byte, 0, min(max(length+1, 512), firstRead))
	for {
		room := data[len(data):cap(data)]
		if left := limit + 1 - int64(len(data)); left <= 0 {
			return data, nil
		} else if int64(len(room)) > left {
			room = room[:left]
		}
		n, err := r.Read(room)
		data = data[:len(data)+n]
		if err == io.EOF {
			return data, nil
		}
		if err != nil {
			return nil, err
		}
		if len(data) == cap(data) {
			room := roomFor(data, length, limit)
			if hold != nil && !hold.Grow(ctx, int64(room)) {
				return nil, errNoRoom
			}
			data = append(make([]byte, 0, room), data...)
		}
	}
}

// errNoRoom means that the memory for bodies is taken.
var errNoRoom = errors.New("no room for the body")

// retryWhenBusy is how many seconds clients wait before they repeat what there was no room for.
const retryWhenBusy = 1

// roomFor returns twice the room of what is there, and four times the room when the length is given or
// a MiB is there, but no more than the body can need. With steps of two, the rooms that a body of
// 3 MiB has outgrown would be as large as the body.
func roomFor(data []byte, length, limit int64) int {
	most := limit
	switch {
	case length >= 0:
		most = length
	case len(data) < 1<<20:
		return 2 * len(data)
	}
	room := 4 * len(data)
	if left := int(most) + 2; left > len(data) && left < room {
		room = left
	}
	return room
}

// The limits of Linger.
const (
	lingerBytes = 64 << 20
	lingerIdle  = 2 * time.Second  // without a byte
	lingerTime  = 15 * time.Second // in all
	lingerPiece = 64 << 10
	lingerRest  = 2 * time.Millisecond // after each piece
)

// Linger discards the rest of a body that is refused, for a short time. Otherwise the connection
// would be reset below a client that sends its whole body before it reads the answer, and the client
// would see the reset and not the answer. What is still to come afterwards is not read: the answer
// tells the client that the connection ends.
//
// A client that waits for leave to send its body has sent nothing, and is answered at once. So is
// everybody while the bodies of too many others are read like this.
//
// The body is read in pieces, with a rest after each. Clients that come again at once would otherwise keep
// others waiting behind the thousands of reads that their bodies take.
func Linger(w http.ResponseWriter, r *http.Request) {
	if r.Body == nil || r.ContentLength == 0 || r.Body == http.NoBody {
		return
	}
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
	if r.Header.Get("Expect") != "" {
		return
	}
	if x := request.ExchangeFrom(r.Context()); x != nil {
		if x.Seat != nil {
			_ = x.Seat.Yield() // there is nothing left to do but to answer
		}
		done, ok := x.Body.Linger()
		if !ok {
			return
		}
		defer done()
	}
	connection, began := http.NewResponseController(w), time.Now()
	room := make([]byte, lingerPiece)
	for read, rested := 0, 0; read < lingerBytes && time.Since(began) < lingerTime; {
		if connection.SetReadDeadline(time.Now().Add(lingerIdle)) != nil {
			return // a read could last for ever
		}
		n, err := r.Body.Read(room)
		if read += n; err != nil {
			break
		}
		if read-rested >= lingerPiece { // the end of a small one is there
			rested = read
			time.Sleep(lingerRest)
		}
	}
	_ = connection.SetReadDeadline(time.Time{})
}
