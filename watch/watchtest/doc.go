// Package watchtest checks what watchers were told against what happened.
//
// A test adds every commit to a [History] and everything that a watcher receives to a [Recording].
// Afterwards [History.Check] verifies the recording:
//
//   - it has every event that the watcher's filter selects, once, in the order of revisions, with
//     the right type and bytes, also when an object begins or stops to match;
//   - no bookmark precedes an event at or below its revision;
//   - the initial events show exactly one state and are followed by one mark;
//   - a 410 occurs only for a version that is gone, and a 504 only for one that does not exist yet.
//
// A watcher that reconnects has several recordings, each of which starts at [Recording.Told] of the
// one before.
//
// A Recording takes the events of a cursor, or the lines of a stream as an HTTP client reads them,
// through [ParseLine]. The package does not depend on how package watch works; it only uses its
// types.
//
// It is for tests of package watch and of code built on it. It does not create histories or
// watchers: see the tests of package watch for cursors and internal/soak for the whole server. The
// tests of this package prove that the check can fail; in other tests use [Recording.Altered].
package watchtest
