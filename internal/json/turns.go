package json

import "runtime"

// turnBytes is how much of a document is read before other goroutines get their turn: a quarter of a millisecond or less.
const turnBytes = 16 << 10

// Turns lets other goroutines run while somebody reads a long document. Go leaves a goroutine its processor for 10 ms,
// and what has just become ready on that processor waits behind it. The zero value is at the beginning.
type Turns struct{ last int }

// At says how much has been read, and reports whether others had their turn. It costs a comparison, but for one call in turnBytes.
func (t *Turns) At(position int) (yielded bool) {
	if position-t.last < turnBytes {
		return false
	}
	t.last = position
	runtime.Gosched()
	return true
}
