package bbolt

import (
	"fmt"
	"runtime/debug"
)

// guard runs a call into bbolt. It converts two kinds of crashes to errors: a signal for a page
// that cannot be read (a truncated file, a bad sector), and a panic for data that bbolt cannot
// interpret. Endless recursion could not be converted, but the file was verified when it was
// opened, so it does not occur.
func guard(call func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errFault, p)
		}
	}()
	return call()
}

// errFault is a panic or a memory fault within bbolt.
var errFault = fmt.Errorf("%w while it is open", ErrDamaged)
