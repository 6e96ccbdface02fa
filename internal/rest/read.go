package rest

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/negotiate"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// pieceBytes is how much of a list is written at once. Together with the 9 bytes of its header that fills an HTTP/2 frame
// and one TLS record; anything more would leave as a second, tiny record, with a system call of its own.
const pieceBytes = 16<<10 - 9

func (c *call) get() error {
	switch {
	case c.sub != nil && c.sub.Asks():
		return c.ask()
	case c.sub != nil && c.sub.Streams(c.info.Verb):
		return c.stream()
	}
	form, err := c.readForm(c.offer())
	if err != nil {
		return err
	}
	lr, err := readRequest(&request.Query{ResourceVersion: c.info.Query.ResourceVersion}) // nothing else is defined for a get (GET-07)
	if err != nil {
		return err
	}
	lr.MetadataOnly = form.As == negotiate.PartialObjectMetadata // which is the same in every version
	entry, err := c.at.Get(c.r.Context(), lr)
	if err != nil {
		return err
	}
	if c.shown != c.served.Kind {
		return c.answerObject(form, http.StatusOK, entry) // of the moment: there is nothing to be kept for others
	}
	return c.answerRead(form, entry)
}

// readForm agrees on the form of the answer to a get, a list or a watch.
func (c *call) readForm(offer negotiate.Offer) (negotiate.Result, error) {
	form, err := negotiate.Negotiate(c.r, offer)
	if err == nil && form.As == negotiate.Table {
		err = c.info.Query.ValidateTable()
	}
	return form, err
}

func (c *call) list() error {
	q := &c.info.Query
	if err := q.ValidateList(); err != nil {
		return err
	}
	offer := c.offer()
	offer.List = true
	form, err := c.readForm(offer)
	if err != nil {
		return err
	}
	lr, err := readRequest(q)
	if err != nil {
		return err
	}
	lr.MetadataOnly = form.As == negotiate.PartialObjectMetadataList
	if lr.Shards, err = c.shards(); err != nil {
		return err
	}
	l, err := c.at.List(c.r.Context(), lr)
	if err == nil {
		err = q.ValidateContinue()
	}
	if err != nil {
		return err
	}
	return c.answerList(form, l)
}

// answerList streams a list: what is held in memory does not grow with it (LIM-15). What goes wrong after the first bytes
// have left can only be told by breaking the connection off.
func (c *call) answerList(form negotiate.Result, l *engine.Listed) error {
	connection := http.NewResponseController(c.w)
	w := &listWriter{connection: connection, exchange: request.ExchangeFrom(c.r.Context())}
	to := c.w
	var held *heldList // of a list that is converted
	if l.Served.Converts() {
		held = &heldList{ResponseWriter: c.w, served: l.Served, extend: w.extend, header: http.Header{}, pool: &c.chunks}
		defer held.letGo()
		to = held
	}
	w.answer = c.output().Start(to, c.r, form, http.StatusOK)
	defer w.answer.Abort()
	err := c.keepList(form, l)
	if err == nil {
		err = c.listForm(form, l).writeList(w, l)
	}
	if err == nil {
		err = w.answer.Close()
	}
	if err == nil && held != nil {
		err = held.send()
	}
	c.giveBack(connection)
	if err == nil {
		return nil
	}
	if !w.answer.Started() || held != nil && !held.sent {
		return err
	}
	if r := c.r.Context(); r.Err() == nil && !isConnectionError(err) {
		c.opts.Logger.Error(err, "a list broke off", guard.WithStack(err, "resource", l.Served.Resource.GroupResource().String())...)
	}
	panic(http.ErrAbortHandler)
}

// giveBack leaves the last bytes of a list, which leave after the handler, a time of their own where the host sets a new one
// for the next request. Where it sets none, the next request must not inherit this one's.
func (c *call) giveBack(connection *http.ResponseController) {
	var until time.Time
	if host, ok := c.r.Context().Value(http.ServerContextKey).(*http.Server); ok && host.WriteTimeout > 0 {
		until = time.Now().Add(listProgress)
	}
	_ = connection.SetWriteDeadline(until)
}

// listProgress is about how long a client may take for one piece of a list. The host's time-out for a whole answer is not meant
// for lists of any length; this one ends clients that do not read.
const listProgress = 30 * time.Second

// After listPatience a client must have taken listRate bytes a second on average. Else a few users
// who read just fast enough for each piece would hold all requests that may be in flight, for hours.
const (
	listPatience = time.Minute
	listRate     = 32 << 10
)

// A listForm writes a whole list. There are three: protobuf begins with its length, segments are kept for the next
// reader, and everything else is written object by object.
type listForm interface {
	writeList(w *listWriter, l *engine.Listed) error
}

// listForm chooses how a list is written.
func (c *call) listForm(form negotiate.Result, l *engine.Listed) listForm {
	f := c.renderer(form)
	if f, ok := f.(*protobufs); ok {
		return c.messageList(f, form, l)
	}
	items := f.(itemRenderer) //nolint:forcetypeassert // all others are, see their declarations
	if form.MediaType == negotiate.CBOR {
		return each{&cborItems{itemRenderer: items}}
	}
	if f, ok := f.(keeper); ok && c.keeps(form) && !l.Converted {
		packed := c.output().Packs(c.r, alwaysPacked)
		if k, ok := f.keep(packed, l.Served.Converts()); ok {
			return &segments{ctx: c.r.Context(), itemRenderer: items, keeping: k, sink: sink{output: c.output(), packed: packed}}
		}
	}
	return each{items}
}

// each writes a list object by object.
type each struct{ itemRenderer }

func (f each) writeList(w *listWriter, l *engine.Listed) error {
	buf, err := f.head(make([]byte, 0, pieceBytes+4<<10), l)
	if err != nil {
		return status.Internal(err)
	}
	for entry, err := range l.Items {
		if err != nil {
			return listError(err)
		}
		if buf, err = f.item(buf, entry); err != nil {
			return status.Internal(fmt.Errorf("write %s: %w", entry.Key(), err))
		}
		if len(buf) < pieceBytes {
			continue
		}
		if buf, err = w.pieces(buf); err != nil {
			return err
		}
	}
	if buf, err = f.tail(buf, l); err != nil {
		return status.Internal(err)
	}
	_, err = w.Write(buf)
	return err
}

// listWriter sends the pieces of a list, each within its own time.
type listWriter struct {
	answer     *negotiate.Answer
	connection *http.ResponseController
	exchange   *request.Exchange
	extended   time.Time // when the deadline was last put off
}

// pieces writes as many full pieces as there are and returns the rest, at the front of the array.
func (w *listWriter) pieces(buf []byte) ([]byte, error) {
	rest := buf
	for len(rest) >= pieceBytes {
		if _, err := w.Write(rest[:pieceBytes]); err != nil {
			return nil, err
		}
		rest = rest[pieceBytes:]
	}
	return buf[:copy(buf, rest)], nil
}

// extend puts the deadline off. With HTTP/2 every change of it is a message to another goroutine, so that it is not done for
// each piece.
func (w *listWriter) extend() {
	if now := time.Now(); now.Sub(w.extended) > listProgress/16 {
		until, last := now.Add(listProgress), w.exchange.Start.Add(listPatience+time.Duration(w.exchange.Bytes.Load()/listRate)*time.Second)
		if last.Before(until) {
			until = last
		}
		_ = w.connection.SetWriteDeadline(until)
		w.extended = now
	}
}

func (w *listWriter) Write(p []byte) (int, error) {
	w.extend()
	n, err := w.answer.Write(p)
	if err != nil {
		return n, connectionError{err}
	}
	return n, nil
}

// listError is what the client is told about a list that broke off.
func listError(err error) error {
	known, ok := errors.AsType[*status.Error](err)
	switch {
	case err == nil || isConnectionError(err):
		return err
	case ok:
		return known
	case watch.Expired(err):
		return status.Expired("the state that was being listed is no longer retained; list again")
	}
	return status.Internal(err)
}

// connectionError marks an error that came from writing to the client.
type connectionError struct{ error }

// Unwrap returns what the connection said.
func (e connectionError) Unwrap() error { return e.error }

func isConnectionError(err error) bool {
	_, ok := errors.AsType[connectionError](err)
	return ok
}

// appendListHead appends a list up to its first item. The metadata come first, as clients print them.
func appendListHead(dst []byte, kind, apiVersion string, m meta.ListMeta) []byte {
	dst = append(dst, `{"kind":`...)
	dst = json.AppendString(dst, kind)
	dst = append(dst, `,"apiVersion":`...)
	dst = json.AppendString(dst, apiVersion)
	dst = append(dst, `,"metadata":{"resourceVersion":`...)
	dst = json.AppendString(dst, m.ResourceVersion)
	if m.Continue != "" {
		dst = append(dst, `,"continue":`...)
		dst = json.AppendString(dst, m.Continue)
	}
	if m.RemainingItemCount != nil {
		dst = append(dst, `,"remainingItemCount":`...)
		dst = strconv.AppendInt(dst, *m.RemainingItemCount, 10)
	}
	if m.ShardInfo != nil {
		dst = append(dst, `,"shardInfo":{"selector":`...)
		dst = append(json.AppendString(dst, m.ShardInfo.Selector), '}')
	}
	return append(dst, `},"items":[`...)
}
