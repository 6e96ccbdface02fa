// Package storagetest is the proof of the contract in package storage: one suite
// for every backend and every wrapper, without switches.
//
// [Run] plays one case per promise, named by a sentence, each on a fresh backend;
// then random histories against a model that remembers everything, with lists of
// the past, watches from anywhere, compactions and reopenings. After each case
// [CheckInvariants] compares everything the backend tells about itself, and no
// goroutine may be left. Concurrent calls are judged by porcupine.
//
// A random history is a function of its seed, so a failure is found again by
// running the sub-test that bears it; it prints its last steps. A backend's test
// file has a flag -seeds for longer runs, which make long uses.
//
// The suite is itself under test: faulty backends in its own tests show of every
// case that it can fail. A new case needs a new fault that it catches.
//
// The package is for tests only. What is promised, and why, is written in the
// package comment of storage.
package storagetest
