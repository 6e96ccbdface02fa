package storagetest

import (
	"testing"
	"time"

	"github.com/kindwright/kindwright/storage"
)

// Harness tells the suite how to create the backend under test. It cannot leave out cases.
type Harness struct {
	// Open creates a fresh, empty backend for one test. It registers with t.Cleanup any removal
	// that is needed after Close; the suite closes the backend itself. The suite may call it
	// several times within one test.
	Open func(t testing.TB) storage.Backend

	// Reopen closes b, which Open or Reopen returned, and opens the same data again. It is nil if
	// the data does not survive Close; state the reason where you set it. The cases about survival
	// then do nothing.
	Reopen func(t testing.TB, b storage.Backend) storage.Backend

	// Crash, if not nil, ends b as a crash would, releases what it holds, and opens what is left. How
	// much a crash loses is up to the function: a killed process loses what was not written, a power
	// cut what was not synced too. If it is nil, durability is not tested.
	Crash func(t testing.TB, b storage.Backend) storage.Backend

	// Join, if not nil, opens the data of b a second time while b is in use, as another process
	// would. A backend for one process returns an error. If it is nil, nothing tests what happens
	// then.
	Join func(t testing.TB, b storage.Backend) (storage.Backend, error)

	// Seeds is the number of random histories; 0 means 2. Seeds are 1, 2, 3, …, so that the name of
	// a sub-test repeats a single one.
	Seeds int

	// Steps is the length of a random history. 0 means 10,000, or 1,000 with -short.
	Steps int

	// timeout limits one case, so that a backend that loses a wake-up fails
	timeout time.Duration
}

// Run tests the promises of package storage for the backends of h: one sub-test per promise, then
// random histories against a model. After each case it calls [CheckInvariants], closes the backend,
// and checks that no goroutine is left. So do not run it in parallel with other tests.
func Run(t *testing.T, h Harness) {
	for _, c := range h.cases() {
		t.Run(c.name, func(t *testing.T) { c.try(t, h) })
	}
}

// cases are all cases of Run, in its order: first what a reader wants to know first, last what
// takes longest.
func (h Harness) cases() []testCase {
	var all []testCase
	all = append(all, commitCases()...)
	all = append(all, wideCases()...)
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
	if h.Crash != nil {
		all = append(all, crashingCases()...)
	}
	if h.Join != nil {
		all = append(all, joiningCases()...)
	}
	return append(all, h.historyCases()...)
}
