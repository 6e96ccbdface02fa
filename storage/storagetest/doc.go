// Package storagetest tests the contract of package storage: one suite for every backend and every
// wrapper, without switches.
//
// [Run] runs one case per promise, each named by a sentence and on a fresh backend. It then runs
// random histories against a model that remembers everything, with lists of the past, watches from
// any revision, compactions and reopenings. After each case [CheckInvariants] compares all that the
// backend reports, and no goroutine may be left. Concurrent calls are checked for linearizability.
//
// A random history depends only on its seed: to repeat a failure, run the sub-test with that seed.
// It prints its last steps. A backend's test file has a flag -seeds for longer runs, as in make
// long.
//
// A green suite does not prove everything. Without [Harness].Crash it does not show that an
// acknowledged commit is on the disk: a backend that never syncs passes. Without Join it does not
// show what happens when two processes open the same data. It cannot show that a fresh store begins
// above the revisions of an earlier one that was deleted. Package storage/bbolt tests these with
// hooks, and cuts the power of a simulated disk.
//
// The suite is itself under test: its own tests run it on faulty backends and show that every case
// can fail. A new case needs a new fault that it catches.
//
// The package is for tests only. The package comment of storage states the promises and their
// reasons.
package storagetest
