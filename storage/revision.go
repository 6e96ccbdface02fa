package storage

import (
	"fmt"
	"math"
	"strconv"
)

// Revision numbers the commits of one store. Revisions increase with every
// commit that changes something, are never reused and order all commits; gaps
// between them are legal and mean nothing. They count events, not time, and two
// stores' revisions cannot be compared. (STORE-03)
//
// No commit has revision 0. Where a Revision is a parameter or a field, 0 stands
// for "none", "absent" or "now"; the place says which.
type Revision uint64

// String is the canonical decimal form, the one [ParseRevision] accepts.
func (r Revision) String() string { return strconv.FormatUint(uint64(r), 10) }

// maxRevisionDigits is the length of the largest uint64.
const maxRevisionDigits = 20

// ParseRevision reads the canonical decimal form of a revision: ASCII digits,
// no sign, no space, no leading zero except for "0" itself, at most 2^64-1.
// Clients compare versions as text, so "07" and "7" must not both be accepted
// (security vector W1). Every other text is an error that wraps [ErrInvalid];
// long ones are refused by their length and are not repeated in the error.
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
