package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/negotiate"
	"github.com/kindwright/kindwright/internal/protobuf"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// messageList writes a list as protobuf. The document begins with its length, so all items are
// encoded before the first byte is sent. prepare walks over the segments of the list, adds up their
// sizes, and holds as many of them as it may. finish sends those, and encodes the others again, so
// that memory does not grow with the list (LIM-15).
type messageList struct {
	*protobufs
	sink
	ctx    context.Context // of the request, for conversions
	list   *engine.Listed
	keeps  bool   // segments are kept for others
	packs  bool   // the client takes a compressed body
	alike  bool   // items are the same in every form of the objects
	about  string // what distinguishes items from others of the same objects
	buffer []byte // of a segment that is not kept

	held     [][]byte // by segment; nil for one that is not held
	missing  bool     // there is one
	size     int      // of all items
	own      int      // bytes held that need no reservation
	reserved int      // and those that do
	next     int      // the segment to be sent
}

// ownBytes is how much each list may hold. It must ask for more: some hundred clients that do not read
// what they have asked for hold as many lists.
const ownBytes = 256 << 10

// longSegment is the length above which segments are encoded in turn, as JSON.
const longSegment = 64 << 10

var (
	errChanged = errors.New("a list changed while it was written")

	// errPacks says that a list turned out to be so long that it is compressed.
	errPacks = errors.New("the list is compressed")
)

// messageList prepares a list as protobuf. Items without their managed fields are not kept, nor are
// those that were converted to be selected.
func (c *call) messageList(f *protobufs, form negotiate.Result, l *engine.Listed) *messageList {
	m := &messageList{protobufs: f, ctx: c.r.Context(), list: l, sink: sink{output: c.output()}}
	m.keeps = !form.Unmanaged && !l.Converted && c.r.Method != http.MethodHead
	m.packs = m.keeps && m.output.Packs(c.r, alwaysPacked)
	if m.alike = form.As != negotiate.Object; m.alike {
		m.about = "metadata"
	}
	return m
}

func (m *messageList) writeList(w *listWriter, l *engine.Listed) error {
	m.listWriter = w
	defer func() { m.letGo(m.reserved) }()
	err := m.walk(m.prepare)
	if errors.Is(err, errPacks) {
		m.letGo(m.reserved)
		m.held, m.size, m.own, m.packed = nil, 0, 0, true
		err = m.walk(m.prepare)
	}
	if err != nil {
		return err
	}
	head := protobuf.ListHead{APIVersion: m.apiVersion, Kind: m.listKind, Metadata: listMeta(l), ItemBytes: m.size}
	start, tail := head.Append(make([]byte, 0, 1<<10)), protobuf.AppendTail(nil)
	if m.packed && !m.answer.Parts(len(start)+m.size+len(tail)) {
		return status.Internal(errChanged)
	}
	if err := m.text(start); err != nil {
		return err
	}
	if err := m.finish(); err != nil {
		return err
	}
	if m.size != 0 {
		return status.Internal(errChanged)
	}
	if err := m.text(tail); err != nil {
		return err
	}
	return m.flush()
}

// walk walks over the segments of the list. What is kept is made of stored objects.
func (m *messageList) walk(with func([]*watch.Entry) error) error {
	if m.keeps {
		return eachSegment(m.list.Stored, with)
	}
	return eachSegment(m.list.Items, with)
}

// prepare counts a segment, and holds it if it may.
func (m *messageList) prepare(objects []*watch.Entry) error {
	segment, err := m.segment(objects)
	if err != nil {
		return err
	}
	m.size += m.sizeOf(segment)
	switch {
	case m.packs && !m.packed && m.size > m.output.Threshold:
		return errPacks
	case m.own+len(segment) <= ownBytes:
		m.own += len(segment)
	case m.list.Served.Hold(len(segment)):
		m.reserved += len(segment)
	default:
		m.held, m.missing = append(m.held, nil), true
		return nil
	}
	if m.isBuffer(segment) {
		segment = bytes.Clone(segment)
	}
	m.held = append(m.held, segment)
	return nil
}

// finish sends all segments.
func (m *messageList) finish() error {
	if m.missing {
		return m.walk(m.send)
	}
	for range m.held {
		if err := m.send(nil); err != nil {
			return err
		}
	}
	return nil
}

// send sends the next segment.
func (m *messageList) send(objects []*watch.Entry) (err error) {
	if m.next == len(m.held) {
		return status.Internal(errChanged)
	}
	segment := m.held[m.next]
	if segment == nil {
		if segment, err = m.segment(objects); err != nil {
			return err
		}
	}
	m.held[m.next] = nil
	m.next++
	if m.size -= m.sizeOf(segment); m.size < 0 {
		return status.Internal(errChanged)
	}
	if m.packed {
		return m.part(segment)
	}
	return m.plain(segment)
}

func (m *messageList) letGo(reserved int) {
	m.list.Served.LetGo(reserved)
	m.reserved -= reserved
}

// sizeOf returns how much of the document a segment makes.
func (m *messageList) sizeOf(segment []byte) int {
	if m.packed {
		return negotiate.Part(segment).Len()
	}
	return len(segment)
}

// segment encodes objects as items. The result may be m.buffer. A long one is encoded in turn: some
// hundred lists at a time took several times their segments of memory each, although the processors
// are not that many. Who comes later often finds it encoded. It leaves nothing behind for the next,
// because the client may take its time to read it.
func (m *messageList) segment(objects []*watch.Entry) ([]byte, error) {
	length := 0
	for _, e := range objects {
		length += e.Length()
	}
	if length <= longSegment {
		return m.encode(objects)
	}
	select {
	case m.proto.turns <- struct{}{}:
	case <-m.ctx.Done():
		return nil, context.Cause(m.ctx)
	}
	defer func() { <-m.proto.turns }()
	segment, err := m.encode(objects)
	if err == nil && m.isBuffer(segment) {
		segment = bytes.Clone(segment) // of just its size
	}
	m.buffer, m.scratch = nil, nil
	return segment, err
}

// isBuffer reports whether a segment is what the next one will overwrite.
func (m *messageList) isBuffer(segment []byte) bool {
	return len(segment) > 0 && len(m.buffer) > 0 && &segment[0] == &m.buffer[0]
}

func (m *messageList) encode(objects []*watch.Entry) ([]byte, error) {
	if !m.keeps {
		return m.items(objects)
	}
	encoding := engine.Messages
	if m.packed {
		encoding = engine.PackedMessages
	}
	return m.list.Served.Segment(objects, encoding, m.about, func() ([]byte, error) {
		if !m.alike {
			shown, err := m.list.Served.ShowAll(m.ctx, objects)
			if err != nil {
				return nil, listError(err)
			}
			objects = shown
		}
		items, err := m.items(objects)
		if err != nil || !m.packed {
			return items, err
		}
		part, err := m.output.PackPart(items)
		return part, listError(err)
	})
}

func (m *messageList) items(objects []*watch.Entry) ([]byte, error) {
	m.buffer = m.buffer[:0]
	for _, e := range objects {
		var err error
		if m.scratch, err = m.json.object(m.scratch[:0], e); err != nil {
			return nil, status.Internal(fmt.Errorf("write %s: %w", e.Key(), err))
		}
		if m.buffer, err = m.descriptor.AppendItem(m.buffer, m.scratch); err != nil {
			return nil, status.Internal(fmt.Errorf("write %s: %w", e.Key(), err))
		}
	}
	return m.buffer, nil
}
