package protobuf

import (
	"errors"
	"io"
	"iter"

	"github.com/kindwright/kindwright/internal/protowire"
	"github.com/kindwright/kindwright/meta"
)

// Field numbers of a list and of its metadata.
const (
	numberMetadata  = 1
	numberListItems = 2

	numberSelfLink        = 1
	numberResourceVersion = 2
	numberContinue        = 3
	numberRemaining       = 4
)

// List is a list to be written.
type List struct {
	APIVersion, Kind string // such as "v1" and "NamespaceList"
	Metadata         meta.ListMeta

	// Items yields the objects as JSON, or an error, after which it must stop. Each slice is only
	// valid until the next one. Long lists are iterated twice and must yield the same objects both
	// times.
	Items iter.Seq2[[]byte, error]
}

// Limits on the memory for a list.
const (
	heldBytes  = 4 << 20  // of a list whose length is not yet known
	chunkBytes = 32 << 10 // approximate size of each write
)

var errChanged = errors.New("protobuf: a list changed while it was written")

// WriteList writes the document of a list in chunks. An envelope starts with the length of its
// message, so all items must be encoded before the first byte can be written. Up to 4 MiB of them
// are kept in memory. A longer list is encoded again while it is written, so memory does not grow
// with the list.
//
// WriteList returns errors from the items and from w unchanged. If an object does not fit the Go
// type, it returns an [*Error]. Nothing has been written in the case of an error, except for errors
// from w and for a list that changed between the two iterations.
func (d *Descriptor) WriteList(w io.Writer, l List) error {
	var held []byte
	size, kept := 0, true
	for object, err := range l.Items {
		if err != nil {
			return err
		}
		start := len(held)
		if held, err = d.AppendItem(held, object); err != nil {
			return err
		}
		size += len(held) - start
		if kept = kept && size <= heldBytes; !kept {
			held = held[:0]
		}
	}
	start := ListHead{APIVersion: l.APIVersion, Kind: l.Kind, Metadata: l.Metadata, ItemBytes: size}
	head := start.Append(make([]byte, 0, 1<<10))
	if kept {
		return writeAll(w, head, held, AppendTail(nil))
	}
	return d.writeAgain(w, l.Items, append(held[:0], head...), size)
}

// writeAgain writes buf, the items, whose total size is known, and the tail.
func (d *Descriptor) writeAgain(w io.Writer, items iter.Seq2[[]byte, error], buf []byte, size int) error {
	for object, err := range items {
		if err != nil {
			return err
		}
		start := len(buf)
		if buf, err = d.AppendItem(buf, object); err != nil {
			return err
		}
		if size -= len(buf) - start; size < 0 {
			return errChanged
		}
		if len(buf) < chunkBytes {
			continue
		}
		if _, err := w.Write(buf); err != nil {
			return err
		}
		buf = buf[:0]
	}
	if size != 0 {
		return errChanged
	}
	return writeAll(w, AppendTail(buf))
}

func writeAll(w io.Writer, parts ...[]byte) error {
	for _, p := range parts {
		for len(p) > 0 {
			chunk := p[:min(len(p), chunkBytes)]
			if _, err := w.Write(chunk); err != nil {
				return err
			}
			p = p[len(chunk):]
		}
	}
	return nil
}

// ListHead is the start of the document of a list. Callers that hold the items use it instead of
// WriteList.
type ListHead struct {
	APIVersion, Kind string // of the list, such as "v1" and "NamespaceList"
	Metadata         meta.ListMeta
	// ItemBytes is the size of all items as [Descriptor.AppendItem] encodes them.
	ItemBytes int
}

// Append appends the document up to its first item. The caller then appends the items and
// [AppendTail].
func (h *ListHead) Append(dst []byte) []byte {
	m := &h.Metadata
	own := textSize(m.SelfLink) + textSize(m.ResourceVersion) + textSize(m.Continue)
	if m.RemainingItemCount != nil {
		own += 1 + protowire.SizeVarint(uint64(*m.RemainingItemCount))
	}
	dst = appendHead(dst, h.APIVersion, h.Kind)
	dst = protowire.AppendVarint(dst, uint64(1+protowire.SizeVarint(uint64(own))+own+h.ItemBytes))
	dst = protowire.AppendVarint(protowire.AppendKey(dst, numberMetadata, protowire.Bytes), uint64(own))
	dst = appendText(dst, numberSelfLink, m.SelfLink)
	dst = appendText(dst, numberResourceVersion, m.ResourceVersion)
	dst = appendText(dst, numberContinue, m.Continue)
	if m.RemainingItemCount != nil {
		dst = protowire.AppendVarint(protowire.AppendKey(dst, numberRemaining, protowire.Varint), uint64(*m.RemainingItemCount))
	}
	return dst
}

// AppendItem appends an object as an item of a list.
func (d *Descriptor) AppendItem(dst, object []byte) ([]byte, error) {
	start := len(dst)
	dst, body := reserve(protowire.AppendKey(dst, numberListItems, protowire.Bytes), len(object))
	dst, err := d.AppendMessage(dst, object)
	if err != nil {
		return dst[:start], err
	}
	return settle(dst, body, len(object)), nil
}
