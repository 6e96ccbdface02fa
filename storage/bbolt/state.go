package bbolt

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/kindwright/kindwright/storage"
)

// The file has two buckets. The log holds the records; meta holds the format,
// which every future version must be able to read, and the state.
const (
	logBucket  = "log"
	metaBucket = "meta"
	formatKey  = "format"
	stateKey   = "state"
)

// format is the number of the format that this package writes and reads. Format 1 had keys without
// the byte that ends a name (see storage.ObjectKey); what it holds would be found by lists and
// missed by everything else.
const format = 2

// formatMagic begins the format record, so that somebody else's bbolt file with
// the same bucket names is not taken for ours.
const formatMagic = "kindwright"

// formatRecord is magic, number, and CRC-32C of both.
func formatRecord(number uint32) []byte {
	b := binary.BigEndian.AppendUint32([]byte(formatMagic), number)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// checkFormat says whether a file with this format record is ours to read.
func checkFormat(data []byte) error {
	const sumAt = len(formatMagic) + 4
	if len(data) < sumAt+4 || string(data[:len(formatMagic)]) != formatMagic {
		return fmt.Errorf("%w: it has no format record", ErrForeign)
	}
	if crc32.Checksum(data[:sumAt], castagnoli) != binary.BigEndian.Uint32(data[sumAt:]) {
		return fmt.Errorf("%w: the format record has a wrong checksum", ErrDamaged)
	}
	switch n := binary.BigEndian.Uint32(data[len(formatMagic):]); {
	case n > format:
		return fmt.Errorf("%w: format %d, this program knows %d", ErrNewerFormat, n, format)
	case n < format && n > 0:
		return fmt.Errorf("%w: format %d, this program knows %d", ErrOlderFormat, n, format)
	case n < format || len(data) != sumAt+4:
		return fmt.Errorf("%w: format %d in %d bytes", ErrDamaged, n, len(data))
	}
	return nil
}

// state is what the file says about itself. It is rewritten in every
// transaction, so it always describes the log beside it.
type state struct {
	id       [16]byte         // chosen at random when the file was made
	copied   bool             // a backup that was never opened: revisions were issued that it does not know
	last     storage.Revision // of the newest commit
	reserved storage.Revision // nobody was ever told a revision above it, nor will be before it is raised
	// compacted: reads below fail, and at or below only each key's newest record
	// is needed.
	compacted storage.Revision

	// What the log must add up to. A record that vanished, came back or changed
	// shows, even where every page and every remaining record is sound.
	records uint64
	sum     uint64 // of all fingerprints, modulo 2^64
}

func (s *state) add(pos position, checksum uint32) {
	s.records++
	s.sum += fingerprint(pos, checksum)
}

func (s *state) remove(pos position, checksum uint32) {
	s.records--
	s.sum -= fingerprint(pos, checksum)
}

// matches requires that the log adds up to what the state says.
func (s *state) matches(counted state) error {
	if counted.records != s.records || counted.sum != s.sum {
		return damaged("the log has %d records with sum %016x, it should have %d with sum %016x",
			counted.records, counted.sum, s.records, s.sum)
	}
	return nil
}

const stateBytes = 4 + 1 + 16 + 5*8

// encode is CRC-32C of the rest, flags, id and the numbers in the order of the
// fields.
func (s *state) encode() []byte {
	b := make([]byte, 4, stateBytes)
	var flags byte
	if s.copied {
		flags = 1
	}
	b = append(b, flags)
	b = append(b, s.id[:]...)
	for _, n := range [...]uint64{uint64(s.last), uint64(s.reserved), uint64(s.compacted), s.records, s.sum} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	binary.BigEndian.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
	return b
}

func parseState(b []byte) (state, error) {
	if len(b) != stateBytes {
		return state{}, fmt.Errorf("%w: state record of %d bytes, want %d", ErrDamaged, len(b), stateBytes)
	}
	if crc32.Checksum(b[4:], castagnoli) != binary.BigEndian.Uint32(b) {
		return state{}, fmt.Errorf("%w: the state record has a wrong checksum", ErrDamaged)
	}
	number := func(i int) uint64 { return binary.BigEndian.Uint64(b[4+1+16+8*i:]) }
	s := state{
		id:        [16]byte(b[5:]),
		copied:    b[4] == 1,
		last:      storage.Revision(number(0)),
		reserved:  storage.Revision(number(1)),
		compacted: storage.Revision(number(2)),
		records:   number(3),
		sum:       number(4),
	}
	if s.last == 0 || s.compacted > s.last || s.last > s.reserved {
		return state{}, fmt.Errorf("%w: the state record has revisions %d, %d, %d out of order", ErrDamaged, s.compacted, s.last, s.reserved)
	}
	return s, nil
}

const (
	// reservation is how many revisions a session may issue before it raises
	// state.reserved, which every transaction does; so it bounds a group of
	// commits, too.
	reservation = 4096
	// restoreJump is more revisions than a store issues between two backups, for
	// the case that the clock is wrong.
	restoreJump = 1 << 40
)

// begin takes the state through the start of a session and returns the first
// revision that it may issue, which nobody was told before: not by the commits
// that are in the file, nor by one whose fate was open when the last session
// ended, nor, for a backup, by the store it was made from.
func (s *state) begin(nowMicros int64) storage.Revision {
	if s.copied {
		s.copied = false
		s.last = max(s.reserved+restoreJump, storage.Revision(max(nowMicros, 0)))
		s.reserved = s.last
		s.compacted = s.last
	}
	first := s.reserved + 1
	s.reserved += reservation
	return first
}
