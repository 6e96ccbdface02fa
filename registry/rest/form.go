package rest

import (
	"fmt"

	"github.com/kindwright/kindwright/internal/negotiate"
	"github.com/kindwright/kindwright/internal/table"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// renderer writes objects in the form that was agreed on with one client. It belongs to one request.
type renderer interface {
	// kind returns kind and apiVersion of the documents it writes, as bookmarks show them.
	kind() (kind, apiVersion string)

	// object appends one object as a document of its own; event does so for the object of a watch event, with the version
	// of the event.
	object(dst []byte, e *watch.Entry) ([]byte, error)
	event(dst []byte, e *watch.Event) ([]byte, error)

	// head, item and tail append a list.
	head(dst []byte, l *registry.List) []byte
	item(dst []byte, e *watch.Entry) ([]byte, error)
	tail(dst []byte, l *registry.List) ([]byte, error)
}

func (c *call) renderer(form negotiate.Result) renderer {
	r := c.served.Resource
	version := "meta." + c.engine.GroupDomain() + "/" + string(form.Version)
	switch form.As {
	case negotiate.Table:
		return &tables{
			Writer:  r.Layout().Writer(table.Options{APIVersion: version, Include: meta.IncludeObjectPolicy(c.info.Query.IncludeObject), Now: c.engine.Now}),
			version: version,
		}
	case negotiate.PartialObjectMetadata, negotiate.PartialObjectMetadataList:
		return &partials{Metadata: table.NewMetadata(version), version: version}
	}
	return &whole{resource: r}
}

// listMeta is the metadata of a list in any form.
func listMeta(l *registry.List) meta.ListMeta {
	return meta.ListMeta{ResourceVersion: l.Revision.String(), Continue: l.Continue, RemainingItemCount: l.Remaining}
}

// whole writes objects as they are kept: their bytes are copied and nothing is decoded.
type whole struct {
	resource *registry.Resource
	items    int
}

func (f *whole) kind() (string, string) { return f.resource.Names.Kind, f.resource.APIVersion() }

func (f *whole) object(dst []byte, e *watch.Entry) ([]byte, error) { return e.AppendJSON(dst), nil }

func (f *whole) event(dst []byte, e *watch.Event) ([]byte, error) {
	return e.Entry.AppendJSONAt(dst, e.Revision), nil
}

func (f *whole) head(dst []byte, l *registry.List) []byte {
	return appendListHead(dst, f.resource.Names.ListKind, f.resource.APIVersion(), listMeta(l))
}

func (f *whole) item(dst []byte, e *watch.Entry) ([]byte, error) {
	if f.items > 0 {
		dst = append(dst, ',')
	}
	f.items++
	return e.AppendJSON(dst), nil
}

func (f *whole) tail(dst []byte, _ *registry.List) ([]byte, error) {
	return append(dst, "]}\n"...), nil
}

// partials writes the metadata of objects alone (TABLE-10).
type partials struct {
	*table.Metadata
	version string
	scratch []byte
}

func (f *partials) kind() (string, string) { return "PartialObjectMetadata", f.version }

func (f *partials) text(e *watch.Entry, rev storage.Revision) []byte {
	f.scratch = e.AppendJSONAt(f.scratch[:0], rev)
	return f.scratch
}

func (f *partials) object(dst []byte, e *watch.Entry) ([]byte, error) {
	return f.AppendObject(dst, f.text(e, e.Revision()))
}

func (f *partials) event(dst []byte, e *watch.Event) ([]byte, error) {
	return f.AppendObject(dst, f.text(e.Entry, e.Revision))
}

func (f *partials) head(dst []byte, _ *registry.List) []byte { return f.AppendHead(dst) }

func (f *partials) item(dst []byte, e *watch.Entry) ([]byte, error) {
	return f.AppendItem(dst, f.text(e, e.Revision()))
}

func (f *partials) tail(dst []byte, l *registry.List) ([]byte, error) {
	return f.AppendTail(dst, listMeta(l))
}

// tables writes objects as rows (TABLE-01). Only the first event of a watch brings the column definitions (WATCH-33).
type tables struct {
	*table.Writer
	version string
	scratch []byte
	defined bool
}

func (f *tables) kind() (string, string) { return "Table", f.version }

func (f *tables) text(e *watch.Entry, rev storage.Revision) []byte {
	f.scratch = e.AppendJSONAt(f.scratch[:0], rev)
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

func (f *tables) head(dst []byte, _ *registry.List) []byte { return f.AppendHead(dst) }

func (f *tables) item(dst []byte, e *watch.Entry) ([]byte, error) {
	return f.AppendRow(dst, f.text(e, e.Revision()))
}

func (f *tables) tail(dst []byte, l *registry.List) ([]byte, error) {
	return f.AppendTail(dst, listMeta(l))
}

// answerObject sends one stored object.
func (c *call) answerObject(form negotiate.Result, code int, entry *watch.Entry) error {
	document, err := c.renderer(form).object(make([]byte, 0, entry.Size()+64), entry)
	if err != nil {
		return status.Internal(fmt.Errorf("write %s: %w", entry.Key(), err))
	}
	return c.send(c.opts.Output.Write(c.w, c.r, form, code, document))
}

// send sorts out what became of an answer: an error that the client can still be told is returned; one of the connection
// needs no telling.
func (c *call) send(err error) error {
	if _, ok := err.(*status.Error); ok {
		return err
	}
	return nil
}
