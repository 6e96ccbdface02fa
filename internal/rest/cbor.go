package rest

import (
	"bytes"

	"github.com/kindwright/kindwright/internal/cbor"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/watch"
)

// cborEvents writes the events of a watch as CBOR. What it writes of an object is the JSON of another renderer: frame makes CBOR
// of it.
type cborEvents struct {
	renderer
	scratch []byte
}

func (f *cborEvents) frame(dst []byte, kind meta.EventType, object func([]byte) ([]byte, error)) (_ []byte, err error) {
	if f.scratch, err = object(f.scratch[:0]); err != nil {
		return dst, err
	}
	return cbor.AppendEvent(dst, string(kind), f.scratch)
}

// cborItems writes the items of a list as CBOR, from the JSON of another renderer.
type cborItems struct {
	itemRenderer
	scratch []byte
}

func (f *cborItems) head(dst []byte, l *engine.Listed) (_ []byte, err error) {
	if f.scratch, err = f.itemRenderer.head(f.scratch[:0], l); err != nil {
		return dst, err
	}
	return cbor.AppendListHead(dst, f.scratch)
}

func (f *cborItems) item(dst []byte, e *watch.Entry) (_ []byte, err error) {
	if f.scratch, err = f.itemRenderer.item(f.scratch[:0], e); err != nil {
		return dst, err
	}
	return cbor.AppendItem(dst, bytes.TrimPrefix(f.scratch, []byte{','}))
}

func (f *cborItems) tail(dst []byte, l *engine.Listed) (_ []byte, err error) {
	if f.scratch, err = f.itemRenderer.tail(f.scratch[:0], l); err != nil {
		return dst, err
	}
	return cbor.AppendListTail(dst, f.scratch)
}

var (
	_ renderer     = (*cborEvents)(nil)
	_ itemRenderer = (*cborItems)(nil)
)
