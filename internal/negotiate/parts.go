package negotiate

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"github.com/klauspost/compress/flate"
)

// A Part is a compressed piece of text that can be placed anywhere in a compressed body, because it
// does not refer to earlier text. Lists consist of parts, since most of a list is unchanged between
// two requests. PackPart makes a part. It can be cached and used in many responses concurrently.
type Part []byte

// partEnd is the size of the trailer of a part: the length of the text, its CRC-32, and the factor
// by which the checksum of the preceding text must be multiplied.
const partEnd = 8 + 4 + 4

// Len returns the length of the text.
func (p Part) Len() int { return int(binary.LittleEndian.Uint64(p[len(p)-partEnd:])) }

// PackPart compresses a piece of text.
func (o *Output) PackPart(text []byte) (Part, error) {
	var packed bytes.Buffer
	w, _ := o.deflaters.Get().(*flate.Writer)
	if w == nil {
		var err error
		if w, err = flate.NewWriter(&packed, flate.BestSpeed); err != nil {
			return Part{}, err
		}
	} else {
		w.Reset(&packed)
	}
	defer o.deflaters.Put(w)
	if _, err := w.Write(text); err != nil {
		return Part{}, err
	}
	if err := w.Flush(); err != nil { // ends at a byte boundary without ending the stream
		return Part{}, err
	}
	part := binary.LittleEndian.AppendUint64(packed.Bytes(), uint64(len(text)))
	part = binary.LittleEndian.AppendUint32(part, crc32.ChecksumIEEE(text))
	return binary.LittleEndian.AppendUint32(part, shiftOf(uint64(len(text)))), nil
}

// Parts starts a response whose body consists of parts. It returns false, and sends nothing, if the
// client does not accept compression, if a body of atLeast bytes would not exceed the threshold, or
// if the body must be converted. Otherwise the caller calls WritePart instead of Write, and then
// Close.
func (a *Answer) Parts(atLeast int) bool {
	if !a.gzip || atLeast <= a.output.Threshold || a.form.MediaType == YAML || a.form.Pretty || a.started || a.held.Len() > 0 {
		return false
	}
	a.w.Header().Set("Content-Encoding", "gzip")
	a.start()
	a.parts = &partWriter{out: bufio.NewWriterSize(a.w, compressedPiece)}
	a.parts.header()
	return true
}

// WritePart sends the next part. The error is that of the connection.
func (a *Answer) WritePart(p Part) error { return a.parts.write(p) }

// partWriter writes the gzip format (RFC 1952) around parts.
type partWriter struct {
	out    *bufio.Writer
	sum    uint32
	length uint64
}

// gzipHeader selects deflate, no optional fields, the fastest method and an unknown operating
// system.
const gzipHeader = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"

// lastBlock is an empty final block of deflate (RFC 1951).
const lastBlock = "\x03\x00"

// Bufio.Writer returns the error again later.
func (w *partWriter) header() { _, _ = w.out.WriteString(gzipHeader) }

func (w *partWriter) write(p Part) error {
	text, end := p[:len(p)-partEnd], p[len(p)-partEnd:]
	w.length += uint64(p.Len())
	w.sum = multiply(binary.LittleEndian.Uint32(end[12:]), w.sum) ^ binary.LittleEndian.Uint32(end[8:])
	return w.full(text)
}

// full fills the buffer exactly before each flush. A bufio.Writer would pass a long text through,
// and the connection would split it into TLS records of uneven sizes.
func (w *partWriter) full(text []byte) error {
	for len(text) > 0 {
		if w.out.Available() == 0 {
			if err := w.out.Flush(); err != nil {
				return err
			}
		}
		n, err := w.out.Write(text[:min(len(text), w.out.Available())])
		if err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

func (w *partWriter) close() error {
	end := make([]byte, 0, len(lastBlock)+8)
	end = append(end, lastBlock...)
	end = binary.LittleEndian.AppendUint32(end, w.sum)
	end = binary.LittleEndian.AppendUint32(end, uint32(w.length))
	if _, err := w.out.Write(end); err != nil {
		return err
	}
	return w.out.Flush()
}

// A CRC is the remainder of a polynomial over GF(2). Its coefficients are the bits of a word, the
// highest power first. Appending text multiplies the remainder of the preceding text by x to the
// power of the number of appended bits. The idea is that of Mark Adler's crc32_combine.

// multiply returns a·b modulo the polynomial of CRC-32.
func multiply(a, b uint32) uint32 {
	var product uint32
	for bit := uint32(1) << 31; bit != 0 && a != 0; bit >>= 1 {
		if a&bit != 0 {
			product ^= b
			a &^= bit
		}
		if b&1 != 0 {
			b = b>>1 ^ crc32.IEEE
		} else {
			b >>= 1
		}
	}
	return product
}

// shiftOf returns x to the power of 8·n modulo the polynomial.
func shiftOf(n uint64) uint32 {
	result, square := uint32(1)<<31, uint32(1)<<23 // x^0, x^8
	for ; n != 0; n >>= 1 {
		if n&1 != 0 {
			result = multiply(square, result)
		}
		square = multiply(square, square)
	}
	return result
}
