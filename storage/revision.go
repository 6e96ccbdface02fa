package storage

import (
	"fmt"
	"math"
	"strconv"
)

// Revision numbers the commits of one store. Revisions increase with every commit that changes
// something, are never reused, and order all commits. Gaps between them are legal and mean nothing.
// They count events, not time. Revisions of two stores cannot be compared. Source: STORE-03.
//
// No commit has revision 0. As a parameter or field, 0 stands for "none", "absent" or "now", as
// documented there.
type Revision uint64

// HighestStart is the highest revision that [Advancer] and [Importer] take a store to; above it is room for its
// commits. A store at the end of the numbers could only begin again with those that it has given out.
const HighestStart Revision = math.MaxInt64

// CheckStart returns ErrInvalid for a revision above [HighestStart]. Backends with an [Advancer] or an
// [Importer] ask it.
func CheckStart(to Revision) error {
	if to > HighestStart {
		return fmt.Errorf("%w: a store cannot be taken to revision %d, the limit is %d", ErrInvalid, to, HighestStart)
	}
	return nil
}

// String returns the canonical decimal form, which [ParseRevision] accepts.
func (r Revision) String() string { return strconv.FormatUint(uint64(r), 10) }

// maxRevisionDigits is the length of the largest uint64.
const maxRevisionDigits = 20

// ParseRevision parses the canonical decimal form of a revision: ASCII digits without sign, space
// or leading zero (except "0" itself), at most 2^64-1. Clients compare versions as text, so it must
// not accept both "07" and "7". Any other text is an error that wraps [ErrInvalid]. It rejects long
// texts by their length and does not repeat them.
// Source: security vector W1.
func ParseRevision(s string) (Revision, error) {
	if len(s) == 0 || len(s) > maxRevisionDigits {
		return 0, fmt.Errorf("%w: revision of %d bytes, want 1 to %d decimal digits", ErrInvalid, len(s), maxRevisionDigits)
	}
	var n uint64
	for i := range len(s) {
		d := uint64(s[i]) - '0'
		if d > 9 {
			return 0, fmt.Errorf("%w: revision %q has a byte that is not a decimal digit", ErrInvalid, s)
		}
		if n > (math.MaxUint64-d)/10 {
			return 0, fmt.Errorf("%w: revision %q is larger than 64 bits", ErrInvalid, s)
		}
		n = n*10 + d
	}
	if s[0] == '0' && len(s) > 1 {
		return 0, fmt.Errorf("%w: revision %q has a leading zero", ErrInvalid, s)
	}
	return Revision(n), nil
}
