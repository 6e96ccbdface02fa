package rest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/metrics/apiserver"
	"github.com/kindwright/kindwright/internal/negotiate"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// errDraining is why a stream ends when the server is about to stop.
var errDraining = errors.New("the server is shutting down")

// errNotServed is why a stream ends when its version is no longer served.
var errNotServed = errors.New("the version is no longer served")

// errNoLongerAllowed is why a stream ends whose client may no longer have it.
var errNoLongerAllowed = errors.New("the credential or the permission of the client has ended")

func (c *call) watch() error {
	offer := c.offer()
	offer.Watch = true
	offer.JSONOnly = c.asksWebSocket()
	form, err := c.readForm(offer)
	if err != nil {
		return err
	}
	if err := c.info.Query.ValidateWatch(!c.opts.NoStreamingLists); err != nil {
		return err
	}
	if c.opts.Draining.Err() != nil {
		return status.TooManyRequests("the server is shutting down", 1) // rule 18
	}
	if !flushes(c.w) {
		return c.refuseStream()
	}
	wr, err := c.watchRequest()
	if err != nil {
		return err
	}
	if c.asksWebSocket() {
		return c.overWebSocket(func() error { return c.follow(form, wr) })
	}
	return c.follow(form, wr)
}

// follow sends the events of a watch.
func (c *call) follow(form negotiate.Result, wr registry.WatchRequest) error {
	cursor, err := c.at.Follow(c.r.Context(), wr)
	if err != nil {
		return c.refuseWatch(form, err)
	}
	defer cursor.Close()
	s := c.newStream(form, cursor, wr)
	defer s.close()
	if c.opts.Gone && wr.After > 0 {
		if err := s.look(); err != nil {
			return err
		}
	}
	s.run()
	return nil
}

// shared names the form of the stream's frames if they depend on nothing but the event, and so are the
// same for others. A Table shows ages, and its columns once. Metadata are those of the record or of
// what it was converted to, for a selector. Plain JSON is copied as it is kept, which costs less.
func (s *stream) shared() string {
	switch form := &s.form; {
	case form.Unmanaged || form.As == negotiate.Table:
		return ""
	case form.As == negotiate.Object && form.MediaType == negotiate.JSON:
		return ""
	case form.As != negotiate.Object && s.shows():
		return ""
	default:
		return fmt.Sprint(form.MediaType, form.As, form.APIVersion())
	}
}

// flushes reports whether what is written to w can be sent at once. A writer that unwraps has the
// powers of the innermost one, whatever its own methods promise: those of our own wrappers pass
// calls on.
func flushes(w http.ResponseWriter) bool {
	switch innermost(w).(type) {
	case http.Flusher, interface{ FlushError() error }:
		return true
	}
	return false
}

// innermost returns what a writer wraps, as far as the wrappers tell.
func innermost(w http.ResponseWriter) http.ResponseWriter {
	for {
		outer, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		inner := outer.Unwrap()
		if inner == nil {
			return w
		}
		w = inner
	}
}

// errCannotFlush tells people how to embed the server.
var errCannotFlush = errors.New("watches are not possible here: the http.ResponseWriter in front of this API cannot flush; " +
	"middleware needs a method Unwrap or Flush, and http.TimeoutHandler does not work with watches")

// refuseStream answers a watch whose events would stay in a buffer. The log gets the cause.
func (c *call) refuseStream() error {
	return status.Internal(fmt.Errorf("%T: %w", innermost(c.w), errCannotFlush)).WithMessage(errCannotFlush.Error())
}

// firstLook is how long a watch whose failure would be its HTTP code is held back, at most.
const firstLook = 100 * time.Millisecond

// look finds out, before the header is sent, whether the version to start from is still retained (READ-01).
func (s *stream) look() (err error) {
	ctx, cancel := context.WithTimeout(s.ctx, firstLook)
	defer cancel()
	if s.events, err = s.cursor.Next(ctx, s.events[:0]); watch.Expired(err) {
		return s.expired()
	}
	return nil
}

// expired is the answer to a client that has fallen behind what is retained.
func (s *stream) expired() *status.Error {
	return status.Expired(fmt.Sprintf("too old resource version: %d (the changes since then are no longer retained)", s.at))
}

// watchRequest translates the query of a watch (WATCH-06 to WATCH-08, WLIST-04, WLIST-05, WLIST-07).
func (c *call) watchRequest() (registry.WatchRequest, error) {
	q := &c.info.Query
	wr := registry.WatchRequest{Labels: q.LabelSelector, Fields: q.FieldSelector}
	if q.ResourceVersion != "" && q.ResourceVersion != "0" {
		rev, err := storage.ParseRevision(q.ResourceVersion)
		if err != nil {
			return wr, status.BadRequest("invalid resource version: %v", err)
		}
		wr.After = rev
	}
	var err error
	if wr.Shards, err = c.shards(); err != nil {
		return wr, err
	}
	wr.AnyState = q.ResourceVersion == "0"
	switch {
	case q.SendInitialEvents != nil && *q.SendInitialEvents:
		wr.Initial = true
	case q.SendInitialEvents != nil && wr.After == 0:
		wr.SkipInitial = true
	}
	return wr, nil
}

// refuseWatch answers a watch that cannot start. What has to do with its version is told inside the stream, where every
// client looks for it (READ-01, rule 16).
func (c *call) refuseWatch(form negotiate.Result, err error) error {
	e := status.From(err)
	inStream := e.Reason() == meta.ReasonExpired && !c.opts.Gone || e.Reason() == meta.ReasonTimeout
	if !inStream {
		return err
	}
	s := c.newStream(form, nil, registry.WatchRequest{})
	defer s.close()
	s.begin()
	s.fail(e)
	return nil
}

// stream is one watch being answered. One goroutine runs it.
type stream struct {
	*call
	form   negotiate.Result
	cursor *watch.Cursor
	render renderer
	about  string            // names the form, if the frames of an event are the same for all who ask for it
	meter  apiserver.Running // counts the events

	bookmarks bool // the client wants them
	pending   bool // the cursor has passed events that are not sent yet
	markEnd   bool // the bookmark that follows the initial events carries the annotation
	timed     bool // the time until all initial events have been sent is still to be counted
	complete  bool // all of them are in the buffer, or have been sent
	initial   bool // what is sent may be initial events, which no other stream sends just now

	ctx        context.Context
	cancel     context.CancelCauseFunc
	stops      [3]func() bool
	connection *http.ResponseController
	deadlines  bool // the connection lets us bound each write
	writeLimit writeLimit
	buf        []byte
	scratch    []byte // of a frame that others share
	events     []watch.Event
	at         storage.Revision // how far the client has come
	endAt      time.Time
}

func (c *call) newStream(form negotiate.Result, cursor *watch.Cursor, wr registry.WatchRequest) *stream {
	q := &c.info.Query
	s := &stream{call: c, form: form, cursor: cursor, bookmarks: q.AllowWatchBookmarks, at: wr.After}
	s.markEnd = wr.Initial || wr.After == 0 && !wr.SkipInitial // a legacy start with bookmarks allowed gets the mark too
	if s.render = c.renderer(form); form.MediaType == negotiate.CBOR {
		s.render = &cborEvents{renderer: s.render}
	}
	s.about = s.shared()
	s.timed = wr.Initial
	s.meter = request.ExchangeFrom(c.r.Context()).Meter
	s.ctx, s.cancel = context.WithCancelCause(c.r.Context())
	s.stops[0] = context.AfterFunc(c.opts.Draining, func() { s.cancel(errDraining) })
	s.stops[1] = context.AfterFunc(c.served.Ended(), func() { s.cancel(errNotServed) })
	s.stops[2] = func() bool { return true }
	if ended := request.ExchangeFrom(c.r.Context()).Ended; ended != nil {
		s.stops[2] = context.AfterFunc(ended, func() { s.cancel(errNoLongerAllowed) })
	}
	s.connection = http.NewResponseController(c.w)
	s.endAt = s.end()
	return s
}

func (s *stream) close() {
	for _, stop := range s.stops {
		stop()
	}
	s.cancel(nil)
	s.writeLimit.close()
}

// end decides when the stream ends by itself: as the client says, else after a random time, so that the watches of a server
// do not all come back at once (WATCH-28).
func (s *stream) end() time.Time {
	now := time.Now()
	if seconds := s.info.Query.TimeoutSeconds; seconds != nil {
		return now.Add(time.Duration(*seconds) * time.Second)
	}
	return now.Add(s.opts.MinWatch + rand.N(s.opts.MinWatch))
}

// begin sends the header at once (WATCH-10). The deadlines of a host's server are for answers, not for streams: they are
// lifted, and each write gets its own. Where a wrapped ResponseWriter does not allow that, the stream ends in good time
// before the host would cut it.
func (s *stream) begin() bool {
	_ = s.connection.SetReadDeadline(time.Time{}) // else the server takes the time-out of its look-ahead for a lost client
	s.deadlines = s.connection.SetWriteDeadline(time.Time{}) == nil
	if host, ok := s.r.Context().Value(http.ServerContextKey).(*http.Server); ok && !s.deadlines && host.WriteTimeout > 0 {
		if limit := time.Now().Add(host.WriteTimeout * 9 / 10); limit.Before(s.endAt) {
			s.endAt = limit
		}
	}
	s.writeLimit = writeLimit{connection: s.connection, after: s.opts.WatchWrite}
	s.w.Header().Set("Cache-Control", "no-cache, private")
	negotiate.Begin(s.w, s.r, s.form.ContentType(), http.StatusOK)
	err := s.connection.Flush()
	if errors.Is(err, http.ErrNotSupported) { // a writer that has the method and cannot flush
		s.opts.Logger.Error(errCannotFlush, "a watch broke off", "path", s.r.URL.Path, "writer", fmt.Sprintf("%T", innermost(s.w)))
	}
	return err == nil
}

// run delivers events until the time is up, the client has gone, the server drains or the cursor ends.
func (s *stream) run() {
	if !s.begin() {
		return
	}
	bookmarkAt := s.nextBookmark()
	for {
		wake := s.endAt
		if s.bookmarks && bookmarkAt.Before(wake) {
			wake = bookmarkAt
		}
		ctx, cancel := context.WithDeadline(s.ctx, wake)
		err := s.deliver(ctx)
		cancel()
		switch {
		case s.r.Context().Err() != nil || errors.Is(err, errWrite):
			return
		case s.ctx.Err() != nil || !time.Now().Before(s.endAt):
			if errors.Is(context.Cause(s.ctx), errNotServed) {
				s.deliverRest()
			}
			s.bookmark()
			return
		case errors.Is(err, context.DeadlineExceeded) && !s.pending: // else it is that of a conversion
			if !s.bookmark() {
				return
			}
			s.release()
			bookmarkAt = s.nextBookmark()
		case watch.Expired(err):
			s.fail(s.expired())
			return
		case errors.Is(err, watch.ErrGone) || errors.Is(err, watch.ErrEnded):
			s.deliverRest()
			s.bookmark() // the client finds out more when it comes back, and then knows from where
			return
		default:
			if status.ReasonOf(err) == meta.ReasonInternalError {
				s.opts.Logger.Error(err, "a watch broke off", guard.WithStack(err, "cause", causeText(err))...)
			}
			s.fail(status.From(err))
			return
		}
	}
}

func (s *stream) nextBookmark() time.Time {
	every := s.opts.BookmarkEvery
	return time.Now().Add(every - every/8 + rand.N(every/4+1))
}

// errWrite says that the client no longer takes what it is sent.
var errWrite = errors.New("the client does not read")

// send sends the events at hand, in the form that the client has asked for.
func (s *stream) send(ctx context.Context) (err error) {
	if s.events, err = s.call.at.Choose(ctx, s.info.Query.LabelSelector, s.info.Query.FieldSelector, s.events); err != nil {
		return err
	}
	if s.shows() {
		if err := s.served.ShowEvents(ctx, s.events); err != nil {
			return err
		}
	}
	for i := range s.events {
		if err := s.append(&s.events[i]); err != nil {
			return err
		}
		if len(s.buf) >= pieceBytes && !s.flush(false) {
			return errWrite
		}
	}
	return nil
}

// shows reports whether objects are converted for the client. Metadata alone is that of the record,
// unless the client selects by what objects are converted to.
func (s *stream) shows() bool {
	q := &s.info.Query
	return s.form.As != negotiate.PartialObjectMetadata || s.call.at.Chooses(q.LabelSelector, q.FieldSelector)
}

// maxRest limits how long a stream whose kind is no longer served converts its last events.
const maxRest = 5 * time.Second

// deliverRest sends what happened before the kind was removed or replaced: a client that waits for the
// end of an object sees it, though its kind goes with the object.
func (s *stream) deliverRest() {
	if s.pending {
		return // what comes first was not sent
	}
	ctx, cancel := context.WithTimeout(s.r.Context(), maxRest)
	defer cancel()
	for {
		if s.events = s.cursor.Rest(s.events); len(s.events) == 0 {
			return
		}
		if s.pending = true; s.send(ctx) != nil {
			return
		}
		s.pending = false
	}
}

// deliver sends events as they come until ctx ends.
func (s *stream) deliver(ctx context.Context) (err error) {
	for {
		walking := s.cursor.Walking()
		s.initial = walking
		if len(s.events) == 0 { // else look has found some
			if s.events, err = s.cursor.Next(ctx, s.events); err != nil {
				return err
			}
		}
		reached := s.at
		s.pending = true
		if n := len(s.events); n > 0 {
			reached = max(reached, s.events[n-1].Revision)
		}
		if err := s.send(s.ctx); err != nil {
			return err
		}
		s.at, s.pending = reached, false
		clear(s.events) // an idle stream holds on to no object
		s.events = s.events[:0]
		more := s.cursor.Walking() // of the initial events only full pieces leave before the last
		if !s.flush(!more) {
			return errWrite
		}
		if walking && !more {
			s.release()
		}
		if s.timed && s.complete {
			s.timed = false
			s.meter.InitialList(time.Since(request.ExchangeFrom(s.r.Context()).Start))
		}
	}
}

// append adds the frame of an event.
func (s *stream) append(event *watch.Event) error {
	if event.Type == meta.Bookmark {
		s.complete = true
		if s.bookmarks && s.markEnd { // WLIST-03, WLIST-07
			return s.mark(event.Revision, true)
		}
		return nil
	}
	shown := *event
	var err error
	if s.shows() {
		if shown.Entry, err = s.served.Show(s.ctx, event.Entry); err != nil {
			return err
		}
	}
	if f, ok := s.render.(*whole); ok { // the common case, in which nothing has to be allocated
		begin := len(s.buf)
		s.buf = f.appendEvent(s.buf, &shown)
		s.meter.Event(len(s.buf) - begin)
		return nil
	}
	object := func(dst []byte) ([]byte, error) { return s.render.event(dst, &shown) }
	if s.about == "" || s.initial {
		return s.frame(event.Type, object)
	}
	frame, err := s.served.Recent(event, s.about, func() ([]byte, error) {
		var err error
		s.scratch, err = s.render.frame(s.scratch[:0], event.Type, object)
		return s.scratch, err
	})
	if err != nil {
		return status.Internal(err)
	}
	if cap(s.scratch) > 8*pieceBytes {
		s.scratch = nil
	}
	s.buf = append(s.buf, frame...)
	s.meter.Event(len(frame))
	return nil
}

// release lets go of the buffers, which a stream that has little to say does not need.
func (s *stream) release() { s.buf, s.scratch, s.events = nil, nil, nil }

// mark adds the frame of a bookmark.
func (s *stream) mark(rev storage.Revision, end bool) error {
	return s.frame(meta.Bookmark, func(dst []byte) ([]byte, error) { return s.render.bookmark(dst, rev, end) })
}

// frame adds one frame, or nothing when its object cannot be written.
func (s *stream) frame(kind meta.EventType, object func([]byte) ([]byte, error)) error {
	out, err := s.render.frame(s.buf, kind, object)
	if err != nil {
		return status.Internal(err)
	}
	begin := len(s.buf)
	s.buf = out
	s.meter.Event(len(s.buf) - begin)
	return nil
}

// flush writes what was gathered, as far as it makes full pieces; push writes all of it and sends it on its way.
func (s *stream) flush(push bool) bool {
	rest := s.buf
	for len(rest) >= pieceBytes || push && len(rest) > 0 {
		n := min(len(rest), pieceBytes)
		if s.deadlines {
			s.writeLimit.begin()
		}
		if _, err := s.w.Write(rest[:n]); err != nil {
			return false
		}
		rest = rest[n:]
	}
	s.buf = s.buf[:copy(s.buf, rest)]
	if cap(s.buf) > 8*pieceBytes && len(s.buf) < pieceBytes {
		s.buf = append([]byte(nil), s.buf...) // one huge object is no reason to keep as much for ever
	}
	if !push {
		return true
	}
	err := s.connection.Flush()
	if s.deadlines {
		s.writeLimit.pause()
	}
	return err == nil
}

// bookmark tells the client how far it has come, if it wants to know (WATCH-22, WATCH-29).
func (s *stream) bookmark() bool {
	// Among the initial events nothing can be promised (rule 17).
	// Nor while events are not sent that the cursor has passed, as when the stream ends during their
	// conversion.
	if rev := s.cursor.Progress(); s.bookmarks && rev != 0 && !s.pending && s.mark(rev, false) != nil {
		return false
	}
	return s.flush(true) // also what waited for a full piece: it may end within a frame
}

// fail ends the stream with an ERROR event (WATCH-27).
func (s *stream) fail(e *status.Error) {
	err := s.frame(meta.Error, func(dst []byte) ([]byte, error) { return json.Append(dst, e.Status()) })
	if err == nil {
		s.flush(true)
	}
}
