package rest

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"net/http"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/negotiate"
	"github.com/kindwright/kindwright/internal/table"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// A long list that has to be rendered or compressed is made of segments: neighbours that are cached in the encoding they were
// sent in, for whoever lists them again (design rule 11). Where a segment ends is a matter of the objects' names alone, so
// that a change of one object leaves the others' segments as they are.
const (
	segmentMask = 128 - 1 // 128 objects on average
	segmentMost = 512
)

// endsSegment tells whether an object is the last of its segment. It looks at the end of the key, which is the end of the name
// and what always follows it.
func endsSegment(key string) bool {
	const same, word, words = 2, 8, 4
	var h uint64
	end := max(len(key)-same, 0)
	for range words {
		if end < word {
			break
		}
		h = (h ^ binary.LittleEndian.Uint64([]byte(key[end-word:end]))) * 0x9e3779b97f4a7c15
		h ^= h >> 32
		end -= word
	}
	return h&segmentMask == 0
}

// keeper is a form in which some lists are worth keeping in segments.
type keeper interface {
	// keep says how. packed is whether the answer is compressed, converted whether the objects are stored in another form.
	// ok is false if segments would be no gain: objects that are stored as they are sent are only copied, and functions make
	// some cells of the time.
	keep(packed, converted bool) (k keeping, ok bool)
}

// keeping is how segments are kept.
type keeping struct {
	encoding engine.Encoding // of a segment as it is sent
	about    string          // what is written beside what the objects hold
	least    int             // bytes in a row
	alike    bool            // what is written of an object is the same in every form

	object func(dst []byte, e *watch.Entry) ([]byte, error) // appends one
	rows   *table.Writer                                    // of a Table, whose ages change although the objects do not
}

func (f *whole) keep(packed, converted bool) (keeping, bool) {
	k := keeping{encoding: engine.PackedSegment, least: shortestRow, object: f.object}
	if !packed {
		k.encoding = engine.SegmentObjects
	}
	return k, packed || converted
}

func (f *partials) keep(packed, _ bool) (keeping, bool) {
	return keeping{encoding: rowEncoding(packed), about: f.apiVersion, least: shortestRow, alike: true, object: f.object}, true
}

func (f *tables) keep(packed, _ bool) (keeping, bool) {
	k := keeping{encoding: rowEncoding(packed), about: "Table " + string(f.Include()) + " " + f.apiVersion, least: shortestRow, object: f.soleRow, rows: f.Writer}
	if f.Include() == meta.IncludeNone {
		k.least = shortestCells
	}
	return k, f.Lasting() && f.Include() != meta.IncludeObject
}

func rowEncoding(packed bool) engine.Encoding {
	if packed {
		return engine.PackedRows
	}
	return engine.Rows
}

// keeps tells whether an answer may be kept at all: it is whole, and others ask for the same.
func (c *call) keeps(form negotiate.Result) bool {
	return form.MediaType == negotiate.JSON && !form.Pretty && !form.Unmanaged && c.r.Method != http.MethodHead
}

// segments writes one list in segments.
type segments struct {
	ctx context.Context // of the request, for conversions
	itemRenderer
	keeping
	sink

	list    *engine.Listed
	objects []*watch.Entry // of the segment that is being sent
	begun   bool           // the head has been sent
	later   bool           // and a segment
}

// segmentBytes is how much JSON a segment holds at most, unless it is that of one object.
const segmentBytes = 1 << 20

// eachSegment walks over objects by segments. A segment is only valid until the next one.
func eachSegment(objects iter.Seq2[*watch.Entry, error], send func([]*watch.Entry) error) error {
	var gathered []*watch.Entry
	size := 0
	for entry, err := range objects {
		if err != nil {
			return listError(err)
		}
		if size += entry.Length(); size > segmentBytes && len(gathered) > 0 {
			if err := send(gathered); err != nil {
				return err
			}
			gathered, size = gathered[:0], entry.Length()
		}
		gathered = append(gathered, entry)
		if len(gathered) == segmentMost || endsSegment(entry.Key()) {
			if err := send(gathered); err != nil {
				return err
			}
			gathered, size = gathered[:0], 0
		}
	}
	if len(gathered) == 0 {
		return nil
	}
	return send(gathered)
}

// sink sends a list whose segments are kept: as text in full pieces, or as parts of a compressed body.
type sink struct {
	*listWriter
	output *negotiate.Output
	packed bool
	rest   []byte // text that does not fill a piece yet
}

// soleRow appends the row of an object.
func (f *tables) soleRow(dst []byte, e *watch.Entry) ([]byte, error) {
	if err := f.ctx.Err(); err != nil {
		return dst, err
	}
	return f.AppendSoleRow(dst, f.text(e, e.Revision()))
}

const (
	// shortestRow is less than the metadata of any object: kind, version, name, uid.
	shortestRow = 100
	// shortestCells is less than a row without metadata: what is around them, and a name.
	shortestCells = 25
)

// alwaysPacked is longer than any threshold of compression.
const alwaysPacked = 1<<31 - 1

func (s *segments) writeList(w *listWriter, l *engine.Listed) error {
	s.listWriter, s.list = w, l
	if err := eachSegment(l.Stored, s.send); err != nil {
		return err
	}
	if !s.begun {
		if err := s.begin(); err != nil {
			return err
		}
	}
	tail, err := s.tail(nil, s.list)
	if err != nil {
		return status.Internal(err)
	}
	if err := s.text(tail); err != nil {
		return err
	}
	return s.flush()
}

// begin sends the head of the list, once it is known how much follows it at least.
func (s *segments) begin() error {
	s.begun = true
	head, err := s.head(nil, s.list)
	if err != nil {
		return status.Internal(err)
	}
	if s.packed {
		least := len(head)
		for _, e := range s.objects {
			if s.encoding == engine.PackedRows || s.list.Served.Converts() {
				least += s.least
			} else {
				least += e.Length()
			}
		}
		s.packed = s.answer.Parts(least) // if not, the answer may still find that it grows beyond the threshold
	}
	return s.text(head)
}

// text sends what is not kept.
func (s *sink) text(text []byte) error {
	if !s.packed {
		return s.plain(text)
	}
	part, err := s.output.PackPart(text)
	if err != nil {
		return status.Internal(err)
	}
	return s.part(part)
}

// plain sends text that is not compressed, in full pieces. It copies no more than fills one.
func (s *sink) plain(text []byte) error {
	if len(s.rest) > 0 {
		n := min(pieceBytes-len(s.rest), len(text)) // the rest never fills a piece
		s.rest, text = append(s.rest, text[:n]...), text[n:]
		if len(s.rest) < pieceBytes {
			return nil
		}
		var err error
		if s.rest, err = s.pieces(s.rest); err != nil {
			return err
		}
	}
	for len(text) >= pieceBytes {
		if _, err := s.Write(text[:pieceBytes]); err != nil {
			return err
		}
		text = text[pieceBytes:]
	}
	s.rest = append(s.rest, text...)
	return nil
}

func (s *sink) part(part negotiate.Part) error {
	s.extend()
	if err := s.answer.WritePart(part); err != nil {
		return connectionError{err}
	}
	return nil
}

// flush sends what does not fill a piece.
func (s *sink) flush() error {
	if len(s.rest) == 0 {
		return nil
	}
	_, err := s.Write(s.rest)
	return err
}

// send sends a segment.
func (s *segments) send(objects []*watch.Entry) error {
	s.objects = objects
	if !s.begun {
		if err := s.begin(); err != nil {
			return err
		}
	}
	defer func() { s.later = true }()
	about := s.about
	if s.later {
		about += "," // what stands between two objects stands at the front of the second's segment
	}
	switch {
	case s.rows != nil:
		return s.sendRows(about)
	case !s.packed && s.encoding == engine.PackedSegment:
		text, err := s.render()
		if err != nil {
			return err
		}
		return s.plain(text)
	}
	kept, err := s.list.Served.Segment(s.objects, s.encoding, about, func() ([]byte, error) {
		text, err := s.render()
		if err != nil || !s.packed {
			return text, err
		}
		return s.output.PackPart(text)
	})
	switch {
	case err != nil:
		return err
	case s.packed:
		return s.part(kept)
	}
	return s.plain(kept)
}

// sendRows sends rows of a Table. They are kept without their ages, which are put in now. Compressed
// rows are kept with them.
func (s *segments) sendRows(about string) (err error) {
	kept, err := s.list.Served.Segment(s.objects, engine.Rows, about, s.render)
	if err != nil {
		return err
	}
	if !s.packed {
		if s.rest = s.rows.AppendKept(s.rest, kept); len(s.rest) >= pieceBytes {
			s.rest, err = s.pieces(s.rest)
		}
		return err
	}
	about = string(s.rows.AppendAges([]byte(about), kept))
	part, err := s.list.Served.Segment(s.objects, engine.PackedRows, about, func() ([]byte, error) {
		return s.output.PackPart(s.rows.AppendKept(make([]byte, 0, 2*len(kept)), kept))
	})
	if err != nil {
		return err
	}
	return s.part(part)
}

func (s *segments) render() ([]byte, error) {
	size := 0
	for _, e := range s.objects {
		size += e.Length() + 1
	}
	text := make([]byte, 0, size)
	shown := s.objects
	var err error
	if !s.alike {
		if shown, err = s.list.Served.ShowAll(s.ctx, s.objects); err != nil {
			return nil, err
		}
	}
	if s.rows != nil {
		s.rows.Keep(text)
	}
	for i, e := range shown {
		if i > 0 || s.later {
			text = append(text, ',')
		}
		if text, err = s.keeping.object(text, e); err != nil {
			return nil, status.Internal(fmt.Errorf("write %s: %w", e.Key(), err))
		}
	}
	if s.rows != nil {
		text = s.rows.Kept(text)
	}
	return text, nil
}
