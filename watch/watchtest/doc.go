// Package watchtest checks what watchers were told against what happened.
//
// A test notes every commit in a [History] and everything that a watcher receives in a [Recording];
// afterwards [History.Check] says whether the recording is right: every event that the watcher's
// filter asks for, each once, in the order of revisions, with the right type and bytes, across
// edges of its selector as well; no bookmark ahead of an event that was still to come; initial
// events that show one state exactly and are ended by one mark; a 410 only for a version that was
// really gone, and a 504 only for one that was not there yet. A watcher that goes away and comes
// back is several recordings, each from a version that the one before was told: see
// [Recording.Told].
//
// A Recording takes the events of a cursor, or lines of a stream as an HTTP client reads them,
// through [ParseLine]. It knows nothing of how package watch works; it only uses its nouns.
//
// It is for tests of package watch and of what is built on it. It does not make histories or
// watchers: the tests of package watch show how to do so beside a cursor, those of internal/soak
// through the whole server. That the check can fail is shown by this package's own tests, and by
// [Recording.Altered] in others.
package watchtest
