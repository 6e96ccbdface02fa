package table

import (
	"encoding/binary"
	"time"
)

// Rows that are kept have their ages left out. What follows the text says where they are missing:
//
//	text ‖ place ‖ seconds ‖ nanoseconds … ‖ number of ages
//
// A place is the position in the text.

// keptAge is an age that was left out.
type keptAge struct {
	place int
	since time.Time
}

const (
	keptAgeBytes   = 4 + 8 + 4
	keptCountBytes = 4
)

// Keep leaves the ages out of the rows that are appended after dst, until Kept is called.
func (w *Writer) Keep(dst []byte) { w.keeping, w.start, w.ages = true, len(dst), w.ages[:0] }

// Kept ends the rows that are kept. They end with dst, which it returns with what is known of their
// ages. Only [Writer.AppendKept] and [Writer.AppendAges] read the result.
func (w *Writer) Kept(dst []byte) []byte {
	w.keeping = false
	for _, a := range w.ages {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(a.place))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(a.since.Unix()))
		dst = binary.LittleEndian.AppendUint32(dst, uint32(a.since.Nanosecond()))
	}
	return binary.LittleEndian.AppendUint32(dst, uint32(len(w.ages)))
}

// keptParts separates the text of kept rows from their ages.
func keptParts(kept []byte) (text, ages []byte) {
	end := len(kept) - keptCountBytes
	count := int(binary.LittleEndian.Uint32(kept[end:]))
	return kept[:end-count*keptAgeBytes], kept[end-count*keptAgeBytes : end]
}

// firstAge returns the place of the first age, and when it began.
func firstAge(ages []byte) (place int, since time.Time) {
	seconds, nanoseconds := binary.LittleEndian.Uint64(ages[4:]), binary.LittleEndian.Uint32(ages[12:])
	return int(binary.LittleEndian.Uint32(ages)), time.Unix(int64(seconds), int64(nanoseconds))
}

// AppendKept appends rows that were kept, with the ages of this table.
func (w *Writer) AppendKept(dst, kept []byte) []byte {
	text, ages := keptParts(kept)
	from := 0
	for ; len(ages) > 0; ages = ages[keptAgeBytes:] {
		place, since := firstAge(ages)
		dst = append(dst, text[from:place]...)
		dst = appendAge(dst, w.now.Sub(since))
		from = place
	}
	return append(dst, text[from:]...)
}

// AppendAges appends the ages alone, which tell two results of AppendKept for the same rows apart.
func (w *Writer) AppendAges(dst, kept []byte) []byte {
	_, ages := keptParts(kept)
	for ; len(ages) > 0; ages = ages[keptAgeBytes:] {
		_, since := firstAge(ages)
		dst = append(appendAge(dst, w.now.Sub(since)), ' ')
	}
	return dst
}
