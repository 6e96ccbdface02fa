package negotiate

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"github.com/klauspost/compress/flate"
)

// A Part is a stretch of text, compressed so that it can stand anywhere in a compressed body: it refers to nothing before
// it. Lists are made of parts, because most of a list is what it was when somebody last asked. It is made by PackPart, can be
// kept as the bytes that it is, and may be sent in many answers at once.
type Part []byte

// partEnd is how many bytes follow the compressed text of a part: the length of the text, its CRC-32, and the shift that
// moves the sum of a text before it to behind it.
const partEnd = 8 + 4 + 4

// PackPart compresses a stretch of text.
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
	if err := w.Flush(); err != nil { // ends at a whole byte, and does not end the stream
		return Part{}, err
	}
	part := binary.LittleEndian.AppendUint64(packed.Bytes(), uint64(len(text)))
	part = binary.LittleEndian.AppendUint32(part, crc32.ChecksumIEEE(text))
	return binary.LittleEndian.AppendUint32(part, shiftOf(uint64(len(text)))), nil
}

// Parts begins an answer whose body consists of parts. It reports false, and nothing has been sent, where the client does not
// take compressed bodies, where the body would not exceed the threshold if it had only so many bytes, and for forms in which
// the body is not the document itself. In an answer begun so, WritePart takes the place of Write, and Close ends it.
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

// WritePart sends the next part. The error comes from the connection.
func (a *Answer) WritePart(p Part) error { return a.parts.write(p) }

// partWriter writes the gzip format (RFC 1952) around parts.
type partWriter struct {
	out    *bufio.Writer
	sum    uint32
	length uint64
}

// gzipHeader says: deflate, nothing optional, the fastest method, an unknown system.
const gzipHeader = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"

// lastBlock is a final block of deflate (RFC 1951) that holds nothing.
const lastBlock = "\x03\x00"

func (w *partWriter) header() { _, _ = w.out.WriteString(gzipHeader) } // a bufio.Writer reports errors again later

func (w *partWriter) write(p Part) error {
	text, end := p[:len(p)-partEnd], p[len(p)-partEnd:]
	w.length += binary.LittleEndian.Uint64(end)
	w.sum = multiply(binary.LittleEndian.Uint32(end[12:]), w.sum) ^ binary.LittleEndian.Uint32(end[8:])
	return w.full(text)
}

// full writes text in pieces of just the size of the buffer: a bufio.Writer would let a long text through as it is, and the
// connection would cut it into records of odd sizes.
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

// A CRC is the remainder of a polynomial over GF(2), its coefficients in the bits of a word, the highest first. Text behind
// other text multiplies that one's remainder by x to the number of bits; see Mark Adler's crc32_combine for the idea.

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
