package storagetest

import (
	"testing"

	"github.com/kindwright/kindwright/storage"
)

// Harness tells the suite how to make the backend under test. It has no switches
// that leave out cases.
type Harness struct {
	// Open makes a fresh, empty backend for one test. It registers with
	// t.Cleanup whatever removal is left to do after Close; the suite closes the
	// backend itself.
	Open func(t testing.TB) storage.Backend

	// Reopen closes b, a backend made by Open or Reopen, and opens the same
	// data again. Nil when the store does not survive; say why where the harness
	// is filled in.
	Reopen func(t testing.TB, b storage.Backend) storage.Backend

	// Seeds is the number of random histories; 0 means 2. Seeds are 1, 2, 3, …,
	// so that a failing one can be run alone by its sub-test's name.
	Seeds int

	// Steps is the length of a random history; 0 means 10,000, or 1,000 with
	// -short.
	Steps int
}
