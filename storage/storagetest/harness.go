package storagetest

import (
	"testing"
	"time"

	"github.com/kindwright/kindwright/storage"
)

// Harness tells the suite how to make the backend under test. It has no switches
// that leave out cases.
type Harness struct {
	// Open makes a fresh, empty backend for one test. It registers with
	// t.Cleanup whatever removal is left to do after Close; the suite closes the
	// backend itself. It may be called again within one test.
	Open func(t testing.TB) storage.Backend

	// Reopen closes b, a backend made by Open or Reopen, and opens the same
	// data again. Nil when the store does not survive; say why where the harness
	// is filled in. The cases about survival then have nothing to prove.
	Reopen func(t testing.TB, b storage.Backend) storage.Backend

	// Seeds is the number of random histories; 0 means 2. Seeds are 1, 2, 3, …,
	// so that a failing one can be run alone by its sub-test's name.
	Seeds int

	// Steps is the length of a random history; 0 means 10,000, or 1,000 with
	// -short.
	Steps int

	// patience bounds one case, so that a backend that loses a wake-up fails
	// instead of hanging; 0 means two minutes. The suite's own tests shorten it.
	patience time.Duration
}

// Run proves the promises of package storage for the backends that h makes: one
// sub-test per promise, then random histories against a model. After each case
// [CheckInvariants] is called, the backend closed, and no goroutine may be left.
// So Run must not be called beside tests that run in parallel.
func Run(t *testing.T, h Harness) {
	for _, c := range h.cases() {
		t.Run(c.name, func(t *testing.T) { c.try(t, h) })
	}
}

// cases are all that Run runs, in its order: from what a reader wants to know
// first to what takes longest.
func (h Harness) cases() []testCase {
	var all []testCase
	all = append(all, commitCases()...)
	all = append(all, revisionCases()...)
	all = append(all, listCases()...)
	all = append(all, watchCases()...)
	all = append(all, compactionCases()...)
	all = append(all, contextCases()...)
	all = append(all, closingCases()...)
	all = append(all, concurrencyCases()...)
	if h.Reopen != nil {
		all = append(all, reopeningCases()...)
	}
	return append(all, h.historyCases()...)
}
