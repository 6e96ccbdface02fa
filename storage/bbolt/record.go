package bbolt

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/kindwright/kindwright/storage"
)

// castagnoli is the polynomial that processors compute in hardware.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// position is the place of a record in the log: the revision of the change and the number of the
// change within the commit. Revision 0 is not a valid position.
type position struct {
	rev storage.Revision
	op  uint16
}

// positionBytes is the length of a key in the log bucket: revision and op, big endian, so that byte
// order is the order of changes.
const positionBytes = 8 + 2

func (p position) appendTo(dst []byte) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint64(dst, uint64(p.rev)), p.op)
}

func (p position) compare(q position) int {
	return cmp.Or(cmp.Compare(p.rev, q.rev), cmp.Compare(p.op, q.op))
}

func (p position) String() string { return fmt.Sprintf("%d/%d", p.rev, p.op) }

func parsePosition(key []byte) (position, bool) {
	if len(key) != positionBytes {
		return position{}, false
	}
	return position{storage.Revision(binary.BigEndian.Uint64(key)), binary.BigEndian.Uint16(key[8:])}, true
}

// A record is one change of one key, for good: it is written once under its
// position and removed by compaction. Its bytes, numbers big endian:
//
//	 0  checksum, CRC-32C over the position and everything after this field
//	 4  layout: 1 if the commit has one revision, 2 if it has several
//	 5  flags
//	 6  op of the previous record of the key
//	 8  revision of the previous record of the key, 0 when this one creates it
//	16  time of the commit, nanoseconds since 1970
//	24  length of the key
//	26  layout 2 only: how far the first revision of the commit lies below, and the last one above
//	26 or 30  key, value
type record struct {
	pos      position
	checksum uint32
	deleted  bool
	extent   extent
	prev     position
	nanos    int64
	key      []byte
	value    []byte
}

// extent is the revisions of a commit, the first and the last one.
type extent struct{ first, last storage.Revision }

func (e extent) wide() bool { return e.first < e.last }

const (
	recordLayout  = 1
	wideLayout    = 2
	recordDeleted = 1 // the only flag
	recordHeader  = 26
	wideHeader    = recordHeader + 4
)

// appendTo writes everything but the checksum from r.
func (r *record) appendTo(dst []byte) ([]byte, uint32) {
	start := len(dst)
	var flags byte
	if r.deleted {
		flags = recordDeleted
	}
	layout := byte(recordLayout)
	if r.extent.wide() {
		layout = wideLayout
	}
	dst = append(dst, 0, 0, 0, 0, layout, flags)
	dst = binary.BigEndian.AppendUint16(dst, r.prev.op)
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.prev.rev))
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.nanos))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(r.key)))
	if layout == wideLayout {
		dst = binary.BigEndian.AppendUint16(dst, uint16(r.pos.rev-r.extent.first))
		dst = binary.BigEndian.AppendUint16(dst, uint16(r.extent.last-r.pos.rev))
	}
	dst = append(dst, r.key...)
	dst = append(dst, r.value...)
	end := len(dst)
	dst = r.pos.appendTo(dst) // temporary: a buffer of its own would be allocated
	sum := recordChecksum(dst[end:], dst[start:end])
	binary.BigEndian.PutUint32(dst[start:], sum)
	return dst[:end], sum
}

// recordChecksum returns the checksum of a record under its key in the log.
func recordChecksum(at, data []byte) uint32 {
	return crc32.Update(crc32.Checksum(at, castagnoli), castagnoli, data[4:])
}

// parseRecord decodes the value of a key of the log. The record's key and value are slices of data.
// The error says what is wrong without naming the file.
func parseRecord(at, data []byte) (record, error) {
	pos, ok := parsePosition(at)
	if !ok {
		return record{}, fmt.Errorf("%w: log key of %d bytes", ErrDamaged, len(at))
	}
	if len(data) < recordHeader {
		return record{}, fmt.Errorf("%w: record %v has %d bytes", ErrDamaged, pos, len(data))
	}
	sum := binary.BigEndian.Uint32(data)
	if actual := recordChecksum(at, data); actual != sum {
		return record{}, fmt.Errorf("%w: record %v has checksum %08x, its bytes give %08x", ErrDamaged, pos, sum, actual)
	}
	keyStart, whole := recordHeader, extent{pos.rev, pos.rev}
	switch {
	case data[4] < recordLayout || data[4] > wideLayout || data[5]&^recordDeleted != 0:
		return record{}, fmt.Errorf("%w: record %v has layout %d and flags %x", ErrNewerFormat, pos, data[4], data[5])
	case data[4] == wideLayout && len(data) < wideHeader:
		return record{}, fmt.Errorf("%w: record %v has %d bytes", ErrDamaged, pos, len(data))
	case data[4] == wideLayout:
		keyStart = wideHeader
		whole.first -= storage.Revision(binary.BigEndian.Uint16(data[recordHeader:]))
		whole.last += storage.Revision(binary.BigEndian.Uint16(data[recordHeader+2:]))
	}
	keyEnd := keyStart + int(binary.BigEndian.Uint16(data[24:]))
	if keyEnd > len(data) {
		return record{}, fmt.Errorf("%w: record %v has a key beyond its end", ErrDamaged, pos)
	}
	return record{
		pos:      pos,
		checksum: sum,
		deleted:  data[5]&recordDeleted != 0,
		extent:   whole,
		prev:     position{storage.Revision(binary.BigEndian.Uint64(data[8:])), binary.BigEndian.Uint16(data[6:])},
		nanos:    int64(binary.BigEndian.Uint64(data[16:])),
		key:      data[keyStart:keyEnd],
		value:    data[keyEnd:],
	}, nil
}

// fingerprint is the record's share in [state].sum. The checksum already depends on everything in
// the record. The rest spreads its 32 bits over 64, so that errors do not cancel in the sum of
// many.
func fingerprint(pos position, checksum uint32) uint64 {
	x := uint64(checksum)<<16 + uint64(pos.op) + uint64(pos.rev)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// clone copies bytes out of the mapped file. Empty becomes nil: backends do not distinguish the
// two, so a watch returns the same from memory and from the file.
func clone(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}
