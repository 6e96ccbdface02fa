package rest

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/negotiate"
	"github.com/kindwright/kindwright/internal/table"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// renderer writes objects in the form that was agreed on with one client. It belongs to one request.
type renderer interface {
	// object appends one object as a document of its own; event does so for the object of a watch event, with the version
	// of the event.
	object(dst []byte, e *watch.Entry) ([]byte, error)
	event(dst []byte, e *watch.Event) ([]byte, error)

	// bookmark appends an object with nothing but its version; end says that it follows the initial events (WATCH-05,
	// WLIST-06).
	bookmark(dst []byte, rev storage.Revision, end bool) ([]byte, error)

	// frame wraps the object of an event, of which it is given what appends it.
	frame(dst []byte, kind meta.EventType, object func([]byte) ([]byte, error)) ([]byte, error)
}

// itemRenderer is a renderer whose lists are written object by object.
type itemRenderer interface {
	renderer

	head(dst []byte, l *engine.Listed) ([]byte, error)
	item(dst []byte, e *watch.Entry) ([]byte, error)
	tail(dst []byte, l *engine.Listed) ([]byte, error)
}

var (
	_ itemRenderer = (*whole)(nil)
	_ itemRenderer = (*partials)(nil)
	_ itemRenderer = (*tables)(nil)
)

// initialEventsEnd is the annotation of the bookmark after the initial events (WLIST-06).
const initialEventsEnd = "k8s.io/initial-events-end"

// lines frames events as lines of JSON (WATCH-01, WATCH-14).
type lines struct{ kind, apiVersion string }

func (f lines) frame(dst []byte, kind meta.EventType, object func([]byte) ([]byte, error)) ([]byte, error) {
	dst = append(dst, `{"type":"`...)
	dst = append(dst, kind...)
	dst = append(dst, `","object":`...)
	dst, err := object(dst)
	return append(dst, "}\n"...), err
}

func (f lines) bookmark(dst []byte, rev storage.Revision, end bool) ([]byte, error) {
	return appendBookmark(dst, f.kind, f.apiVersion, rev, end), nil
}

// appendBookmark appends the JSON of a bookmark's object.
func appendBookmark(dst []byte, kind, apiVersion string, rev storage.Revision, end bool) []byte {
	dst = append(dst, `{"kind":`...)
	dst = json.AppendString(dst, kind)
	dst = append(dst, `,"apiVersion":`...)
	dst = json.AppendString(dst, apiVersion)
	dst = append(dst, `,"metadata":{"resourceVersion":"`...)
	dst = strconv.AppendUint(dst, uint64(rev), 10)
	dst = append(dst, '"')
	if end {
		dst = append(dst, `,"annotations":{"`+initialEventsEnd+`":"true"}`...)
	}
	return append(dst, "}}"...)
}

func (c *call) renderer(form negotiate.Result) renderer {
	r := c.shown
	from, version := source{form.Unmanaged}, ""
	if form.As != negotiate.Object {
		version = form.APIVersion()
	}
	switch {
	case form.MediaType == negotiate.Protobuf && form.As == negotiate.Object:
		return &protobufs{
			proto: &c.proto, descriptor: r.Messages, apiVersion: r.APIVersion(), kind: r.Names.Kind, listKind: r.Names.ListKind,
			json: &whole{source: from, lines: lines{r.Names.Kind, r.APIVersion()}},
		}
	case form.MediaType == negotiate.Protobuf:
		return &protobufs{
			proto: &c.proto, descriptor: c.proto.partial(), apiVersion: version, kind: "PartialObjectMetadata", listKind: "PartialObjectMetadataList",
			json: &partials{source: from, lines: lines{"PartialObjectMetadata", version}, Metadata: table.NewMetadata(version)},
		}
	}
	switch form.As {
	case negotiate.Table:
		return &tables{
			ctx:    c.r.Context(),
			source: from,
			lines:  lines{r.Names.Kind, r.APIVersion()},
			Writer: r.Layout().Writer(table.Options{APIVersion: version, Include: meta.IncludeObjectPolicy(c.info.Query.IncludeObject), Now: c.engine.Now, Failed: c.columnFailed}),
		}
	case negotiate.PartialObjectMetadata, negotiate.PartialObjectMetadataList:
		return &partials{source: from, lines: lines{"PartialObjectMetadata", version}, Metadata: table.NewMetadata(version)}
	}
	return &whole{source: from, lines: lines{r.Names.Kind, r.APIVersion()}, listKind: r.Names.ListKind}
}

// columnFailed logs that a column of a table panicked. Its cells are empty.
func (c *call) columnFailed(err error) {
	c.opts.Logger.Error(err, "a column of a table panicked", guard.WithStack(err, "resource", c.served.Resource.GroupResource().String())...)
}

// listMeta is the metadata of a list in any form.
func listMeta(l *engine.Listed) meta.ListMeta {
	m := meta.ListMeta{ResourceVersion: l.Revision.String(), Continue: l.Continue, RemainingItemCount: l.Remaining}
	if l.Shards != nil {
		m.ShardInfo = &meta.ShardInfo{Selector: l.Shards.String()}
	}
	return m
}

// source appends the JSON of objects: as it is kept, or without their managed fields.
type source struct{ unmanaged bool }

func (s source) json(dst []byte, e *watch.Entry, rev storage.Revision) []byte {
	switch {
	case s.unmanaged:
		return e.AppendUnmanaged(dst, rev)
	case rev == e.Revision():
		return e.AppendJSON(dst)
	}
	return e.AppendJSONAt(dst, rev)
}

// whole writes objects as they are kept: their bytes are copied and nothing is decoded.
type whole struct {
	source
	lines
	listKind string
	items    int
}

func (f *whole) object(dst []byte, e *watch.Entry) ([]byte, error) {
	return f.json(dst, e, e.Revision()), nil
}

func (f *whole) event(dst []byte, e *watch.Event) ([]byte, error) {
	return f.json(dst, e.Entry, e.Revision), nil
}

// appendEvent appends the frame of an event. It is frame and event in one.
func (f *whole) appendEvent(dst []byte, e *watch.Event) []byte {
	dst = append(dst, `{"type":"`...)
	dst = append(dst, e.Type...)
	dst = append(dst, `","object":`...)
	dst = f.json(dst, e.Entry, e.Revision)
	return append(dst, "}\n"...)
}

func (f *whole) head(dst []byte, l *engine.Listed) ([]byte, error) {
	return appendListHead(dst, f.listKind, f.apiVersion, listMeta(l)), nil
}

func (f *whole) item(dst []byte, e *watch.Entry) ([]byte, error) {
	if f.items > 0 {
		dst = append(dst, ',')
	}
	f.items++
	return f.json(dst, e, e.Revision()), nil
}

func (f *whole) tail(dst []byte, _ *engine.Listed) ([]byte, error) {
	return append(dst, "]}\n"...), nil
}

// partials writes the metadata of objects alone (TABLE-10).
type partials struct {
	source
	lines
	*table.Metadata
	scratch []byte
}

func (f *partials) text(e *watch.Entry, rev storage.Revision) []byte {
	f.scratch = f.json(f.scratch[:0], e, rev)
	return f.scratch
}

func (f *partials) object(dst []byte, e *watch.Entry) ([]byte, error) {
	return f.AppendObject(dst, f.text(e, e.Revision()))
}

func (f *partials) event(dst []byte, e *watch.Event) ([]byte, error) {
	return f.AppendObject(dst, f.text(e.Entry, e.Revision))
}

func (f *partials) head(dst []byte, _ *engine.Listed) ([]byte, error) {
	return f.AppendHead(dst), nil
}

func (f *partials) item(dst []byte, e *watch.Entry) ([]byte, error) {
	return f.AppendItem(dst, f.text(e, e.Revision()))
}

func (f *partials) tail(dst []byte, l *engine.Listed) ([]byte, error) {
	return f.AppendTail(dst, listMeta(l))
}

// tables writes objects as rows (TABLE-01). Only the first event of a watch brings the column definitions (WATCH-33). The lines
// are those of the objects in the rows.
type tables struct {
	ctx context.Context // of the request: the columns of a definition can take long
	source
	lines
	*table.Writer
	scratch []byte
	defined bool
}

func (f *tables) text(e *watch.Entry, rev storage.Revision) []byte {
	if !f.unmanaged {
		f.Managed(e.ManagedFields())
	}
	f.scratch = f.json(f.scratch[:0], e, rev)
	return f.scratch
}

func (f *tables) object(dst []byte, e *watch.Entry) ([]byte, error) {
	return f.AppendObject(dst, f.text(e, e.Revision()), true)
}

func (f *tables) event(dst []byte, e *watch.Event) ([]byte, error) {
	dst, err := f.AppendObject(dst, f.text(e.Entry, e.Revision), !f.defined)
	f.defined = true
	return dst, err
}

// bookmark writes the row of an object that has a version alone: the metadata of a Table have no place for the annotation that
// ends the initial events.
func (f *tables) bookmark(dst []byte, rev storage.Revision, end bool) ([]byte, error) {
	f.scratch = appendBookmark(f.scratch[:0], f.kind, f.apiVersion, rev, end)
	dst, err := f.AppendObject(dst, f.scratch, !f.defined)
	f.defined = true
	return dst, err
}

func (f *tables) head(dst []byte, _ *engine.Listed) ([]byte, error) { return f.AppendHead(dst), nil }

func (f *tables) item(dst []byte, e *watch.Entry) ([]byte, error) {
	if err := f.ctx.Err(); err != nil {
		return dst, err
	}
	return f.AppendRow(dst, f.text(e, e.Revision()))
}

func (f *tables) tail(dst []byte, l *engine.Listed) ([]byte, error) {
	return f.AppendTail(dst, listMeta(l))
}

// answerObject sends one stored object.
func (c *call) answerObject(form negotiate.Result, code int, entry *watch.Entry) error {
	if err := c.keepObject(form, entry); err != nil {
		return err
	}
	if !form.Unmanaged {
		if done, err := c.output().WriteObject(c.w, c.r, form, code, entry.Length(), entry); done {
			return c.send(err)
		}
	}
	document, err := c.written(form, entry)
	if err != nil {
		return err
	}
	return c.send(c.output().Write(c.w, c.r, form, code, document))
}

// answerRead sends one object that was read. What has to be made for it is kept for others who read
// the same, by the form alone: an answer that depends on anything else in the request must not come
// here.
func (c *call) answerRead(form negotiate.Result, entry *watch.Entry) error {
	plain := form
	plain.Name = "" // of the media type, in the header alone
	var body []byte
	packed, size := engine.Packed, entry.Length()
	switch {
	case plain == negotiate.Result{MediaType: negotiate.Protobuf}:
		message, err := c.served.Encoding(entry, engine.Message, func() ([]byte, error) { return c.written(form, entry) })
		if err != nil {
			return err
		}
		body, packed, size = message, engine.PackedMessage, len(message)
	case plain != negotiate.Result{MediaType: negotiate.JSON}:
		return c.answerObject(form, http.StatusOK, entry)
	}
	if c.output().Packs(c.r, size) {
		if err := c.keepObject(form, entry); err != nil {
			return err
		}
		small, err := c.served.Encoding(entry, packed, func() ([]byte, error) {
			if body == nil {
				body = entry.AppendJSON(make([]byte, 0, size))
			}
			return c.output().Pack(body)
		})
		if err != nil {
			return status.Internal(fmt.Errorf("compress %s: %w", entry.Key(), err))
		}
		return c.send(c.output().WritePacked(c.w, c.r, form, http.StatusOK, small))
	}
	if body == nil {
		return c.answerObject(form, http.StatusOK, entry)
	}
	if err := c.keepObject(form, entry); err != nil {
		return err
	}
	return c.send(c.output().Write(c.w, c.r, form, http.StatusOK, body))
}

// written returns one stored object in the form that was agreed on.
func (c *call) written(form negotiate.Result, entry *watch.Entry) ([]byte, error) {
	document, err := c.renderer(form).object(make([]byte, 0, entry.Size()+64), entry)
	if err != nil {
		return nil, status.Internal(fmt.Errorf("write %s: %w", entry.Key(), err))
	}
	return document, nil
}

// send sorts out what became of an answer: an error that the client can still be told is returned; one of the connection
// needs no telling.
func (c *call) send(err error) error {
	if _, ok := err.(*status.Error); ok {
		return err
	}
	return nil
}
