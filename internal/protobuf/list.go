package protobuf

import (
	"errors"
	"io"
	"iter"

	"github.com/kindwright/kindwright/internal/protowire"
	"github.com/kindwright/kindwright/meta"
)

// The numbers of the fields of a list and of its metadata.
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

	// Items yields the objects as JSON text, which may be overwritten by the next, or an error, after which nothing comes.
	// A long list is walked over twice and must be the same both times.
	Items iter.Seq2[[]byte, error]
}

// The bounds of what is held in memory of a list.
const (
	heldBytes  = 4 << 20  // of a list whose length is not known yet
	chunkBytes = 32 << 10 // about how much is gathered before it is written
)

var errChanged = errors.New("protobuf: a list changed while it was written")

// WriteList writes the document of a list in pieces. An envelope begins with the length of its message, so that all items
// are made into messages before the first byte is written; they are kept, up to 4 MiB, and what is longer is made once
// more while it is written. What is held in memory does not grow with the list.
//
// Errors of the items and of w are returned as they are; an object that does not fit the Go type is an [*Error]. But for
// errors of w and of a list that changed between the two walks, nothing has been written then.
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

// writeAgain writes what buf holds, the items, whose size is known, and the end.
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

// ListHead is how the document of a list begins, for callers who hold its items.
type ListHead struct {
	APIVersion, Kind string // of the list, such as "v1" and "NamespaceList"
	Metadata         meta.ListMeta
	// ItemBytes is the number of bytes that all items take as [Descriptor.AppendItem] appends them.
	ItemBytes int
}

// Append appends a list up to its first item. After the last one comes [AppendTail].
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
