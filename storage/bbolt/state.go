package bbolt

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/kindwright/kindwright/storage"
)

// The file has two buckets. The log holds the records. The other one, meta, holds the format, which
// every future version must be able to read, and the state.
const (
	logBucket  = "log"
	metaBucket = "meta"
	formatKey  = "format"
	stateKey   = "state"
)

// format is the number of the format that this package writes. In format 2, a commit has one
// revision; Open makes such a file one of format 3, see migrate. In format 1, keys lacked the byte
// that ends a name (see storage.ObjectKey), so lists would find its records and all other reads
// would miss them.
const (
	format       = 3
	oldestFormat = 2 // that this package can read
)

// formatMagic starts the format record. It tells our file from another program's bbolt file with
// the same bucket names.
const formatMagic = "kindwright"

// formatRecord is magic, number, and CRC-32C of both.
func formatRecord(number uint32) []byte {
	b := binary.BigEndian.AppendUint32([]byte(formatMagic), number)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// parseFormat returns the number in a format record, or an error unless this package can read the
// file.
func parseFormat(data []byte) (uint32, error) {
	const sumAt = len(formatMagic) + 4
	if len(data) < sumAt+4 || string(data[:len(formatMagic)]) != formatMagic {
		return 0, fmt.Errorf("%w: it has no format record", ErrForeign)
	}
	if crc32.Checksum(data[:sumAt], castagnoli) != binary.BigEndian.Uint32(data[sumAt:]) {
		return 0, fmt.Errorf("%w: the format record has a wrong checksum", ErrDamaged)
	}
	n := binary.BigEndian.Uint32(data[len(formatMagic):])
	switch {
	case n > format:
		return 0, fmt.Errorf("%w: format %d, this program knows %d", ErrNewerFormat, n, format)
	case n < oldestFormat && n > 0:
		return 0, fmt.Errorf("%w: format %d, this program knows %d", ErrOlderFormat, n, format)
	case n == 0 || len(data) != sumAt+4:
		return 0, fmt.Errorf("%w: format %d in %d bytes", ErrDamaged, n, len(data))
	}
	return n, nil
}

// state describes the file. Every transaction rewrites it, so it always matches the log.
type state struct {
	id       [16]byte         // chosen at random when the file was made
	copied   bool             // a backup that was never opened: revisions were issued that it does not know
	last     storage.Revision // of the newest commit
	reserved storage.Revision // no revision above it was ever issued, nor will be until it is raised
	// compacted: reads below it fail. At or below it, only each key's newest record is needed.
	compacted storage.Revision

	// The totals of the log. They detect a record that vanished, came back or changed, even if
	// every page and every remaining record is intact.
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

// matches requires that the totals of the log are those of the state.
func (s *state) matches(counted state) error {
	if counted.records != s.records || counted.sum != s.sum {
		return damaged("the log has %d records with sum %016x, it should have %d with sum %016x",
			counted.records, counted.sum, s.records, s.sum)
	}
	return nil
}

const stateBytes = 4 + 1 + 16 + 5*8

// encode returns the CRC-32C of the rest, then flags, id and the numbers in the order of the
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
		return state{}, fmt.Errorf("%w: the state record has revisions %d, %d, %d out of order", ErrDamaged,
			s.compacted, s.last, s.reserved)
	}
	return s, nil
}

const (
	// reservation is how many revisions a session may issue before it raises state.reserved. Every
	// transaction raises it, so reservation also limits a group of commits.
	reservation = 4096
	// restoreJump is more revisions than a store issues after a backup. It is for clocks that are
	// behind.
	restoreJump = 1 << 40
)

// begin takes the state through the start of a session and returns the first revision that it may
// issue. No earlier session issued that revision: not for the commits in the file, and not for a
// commit whose outcome was open when the last session ended. If the file is a copy, neither did the
// original, which has issued less than one revision per microsecond since the file was made: the
// session begins at the clock. If the clock is behind what the file knows, that says nothing, and a
// backup begins far ahead.
func (s *state) begin(clock storage.Revision) storage.Revision {
	if s.copied {
		s.copied = false
		s.last = s.reserved + restoreJump
		if clock > s.reserved {
			s.last = clock
		}
		s.reserved = s.last
		s.compacted = s.last
	}
	first := max(s.reserved+1, clock)
	s.reserved = first - 1 + reservation
	return first
}

// maxClock is in the year 4253. A clock that is past it is wrong.
const maxClock = 1 << 56

// clockRevision returns the revision of a time, or 0 if the clock cannot be right.
func clockRevision(now time.Time) storage.Revision {
	if micros := now.UnixMicro(); 0 < micros && micros < maxClock {
		return storage.Revision(micros)
	}
	return 0
}
