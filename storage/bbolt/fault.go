package bbolt

import (
	"fmt"
	"runtime/debug"
)

// guard runs what calls into bbolt. A page that cannot be read (the file was cut
// off under the map, the disk has a bad sector) arrives as a signal, and what
// bbolt cannot make sense of as a panic; both become errors here. That the file
// was sound when it was opened keeps bbolt from endless recursion, which nothing
// could turn into an error.
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
