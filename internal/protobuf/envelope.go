package protobuf

import (
	"bytes"
	"encoding/binary"
	"math"
	"unicode/utf8"

	"github.com/kindwright/kindwright/internal/protowire"
	"github.com/kindwright/kindwright/meta"
)

// The media types of documents and of watch streams.
const (
	MediaType       = "application/vnd.kubernetes.protobuf"
	StreamMediaType = MediaType + ";stream=watch"
)

// magic precedes every envelope.
const magic = "k8s\x00"

// Field numbers of an envelope and of the type in it.
const (
	numberType     = 1
	numberMessage  = 2
	numberEncoding = 3
	numberContent  = 4

	numberAPIVersion = 1
	numberKind       = 2
)

// Field numbers of a watch event.
const (
	numberEventType   = 1
	numberEventObject = 2
)

// Envelope is a document whose message has not been decoded.
type Envelope struct {
	APIVersion, Kind string // from the envelope; may be empty
	Message          []byte // a slice of the document
}

// Open parses the envelope of a document. The [*Error] distinguishes documents that are not
// protobuf, such as JSON, from damaged envelopes.
func Open(document []byte) (Envelope, error) {
	rest, ok := bytes.CutPrefix(document, []byte(magic))
	if !ok {
		return Envelope{}, noEnvelope(document)
	}
	var e Envelope
	for len(rest) > 0 {
		f, after, err := protowire.Next(rest)
		if err != nil {
			return Envelope{}, fail("the envelope is damaged: %s", err)
		}
		rest = after
		if f.Number <= numberContent && f.Type != protowire.Bytes {
			return Envelope{}, fail("the envelope is damaged: %s", mismatch(f.Type, protowire.Bytes).(*Error).Reason)
		}
		switch f.Number {
		case numberType:
			err = e.setType(f.Bytes)
		case numberMessage:
			e.Message = f.Bytes
		case numberEncoding:
			err = mustBe("encoding", f.Bytes, "")
		case numberContent:
			err = mustBe("content type", f.Bytes, MediaType)
		}
		if err != nil {
			return Envelope{}, err
		}
	}
	return e, nil
}

func noEnvelope(document []byte) error {
	if start := bytes.TrimLeft(document, " \t\r\n"); len(start) > 0 && bytes.IndexByte([]byte(`{["-`), start[0]) >= 0 {
		return fail("the content type is %s, but the body is JSON or YAML", MediaType)
	}
	return fail("the document does not begin with the bytes %q", magic)
}

func mustBe(what string, got []byte, want string) error {
	if len(got) == 0 || string(got) == want {
		return nil
	}
	return fail("the envelope has another %s", what)
}

func (e *Envelope) setType(message []byte) error {
	for len(message) > 0 {
		f, rest, err := protowire.Next(message)
		if err != nil {
			return fail("the type in the envelope is damaged: %s", err)
		}
		message = rest
		switch {
		case f.Number > numberKind:
		case f.Type != protowire.Bytes:
			return fail("the type in the envelope is damaged: %s", mismatch(f.Type, protowire.Bytes).(*Error).Reason)
		case f.Number == numberAPIVersion:
			e.APIVersion = string(f.Bytes)
		default:
			e.Kind = string(f.Bytes)
		}
	}
	if !utf8.ValidString(e.APIVersion) || !utf8.ValidString(e.Kind) {
		return fail("the type in the envelope is damaged")
	}
	return nil
}

// AppendDocument opens a document and appends its object as JSON; see [Descriptor.AppendJSON]. It
// does not check the kind. The caller must compare apiVersion and kind in the object, or those that
// [Open] returns.
func (d *Descriptor) AppendDocument(dst, document []byte, limit int) ([]byte, error) {
	e, err := Open(document)
	if err != nil {
		return dst, err
	}
	return d.AppendJSON(dst, e.Message, e.APIVersion, e.Kind, limit)
}

// AppendObject appends the document of an object: its message in an envelope. It ignores the
// object's own apiVersion and kind.
func (d *Descriptor) AppendObject(dst []byte, apiVersion, kind string, object []byte) ([]byte, error) {
	start := len(dst)
	dst = appendHead(dst, apiVersion, kind)
	dst, body := reserve(dst, len(object))
	dst, err := d.AppendMessage(dst, object)
	if err != nil {
		return dst[:start], err
	}
	return AppendTail(settle(dst, body, len(object))), nil
}

// appendHead appends an envelope up to, but without, the length of its message.
func appendHead(dst []byte, apiVersion, kind string) []byte {
	dst = append(dst, magic...)
	dst = protowire.AppendKey(dst, numberType, protowire.Bytes)
	dst = protowire.AppendVarint(dst, uint64(textSize(apiVersion)+textSize(kind)))
	dst = appendText(dst, numberAPIVersion, apiVersion)
	dst = appendText(dst, numberKind, kind)
	return protowire.AppendKey(dst, numberMessage, protowire.Bytes)
}

// AppendTail appends the end of an envelope, which follows its message.
func AppendTail(dst []byte) []byte {
	return appendText(appendText(dst, numberEncoding, ""), numberContent, "")
}

func appendText(dst []byte, number int32, text string) []byte {
	return protowire.AppendBytes(protowire.AppendKey(dst, number, protowire.Bytes), text)
}

// textSize returns the number of bytes that appendText appends for a field number below 16.
func textSize(text string) int {
	return 1 + protowire.SizeVarint(uint64(len(text))) + len(text)
}

// frameHeader is the size of the header of each frame in a stream: the length in big-endian order.
const frameHeader = 4

// AppendEvent appends a frame of a watch. It contains an event whose object is a complete document.
func (d *Descriptor) AppendEvent(dst []byte, event meta.EventType, apiVersion, kind string, object []byte) ([]byte, error) {
	start := len(dst)
	dst = append(dst, make([]byte, frameHeader)...)
	dst = appendText(dst, numberEventType, string(event))
	dst, outer := reserve(protowire.AppendKey(dst, numberEventObject, protowire.Bytes), len(object))
	dst, inner := reserve(protowire.AppendKey(dst, numberRaw, protowire.Bytes), len(object))
	dst, err := d.AppendObject(dst, apiVersion, kind, object)
	if err != nil {
		return dst[:start], err
	}
	dst = settle(settle(dst, inner, len(object)), outer, len(object))
	size := len(dst) - start - frameHeader
	if size > math.MaxInt32 {
		return dst[:start], fail("the object is too long")
	}
	binary.BigEndian.PutUint32(dst[start:], uint32(size))
	return dst, nil
}
