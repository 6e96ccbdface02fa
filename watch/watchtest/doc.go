// Package watchtest checks what watchers were told against what happened.
//
// A test notes every commit in a [History] and everything that a watcher receives in a [Recording]; afterwards
// [History.Check] says whether the recording is right: every event that the watcher's filter asks for, each once, in the
// order of revisions, with the right type and bytes, no bookmark ahead of an event that was still to come, and initial
// events that show one state exactly. It knows nothing of how package watch works; it only uses its nouns.
//
// It is for tests of package watch and of what is built on it. It does not make histories or watchers; the tests of
// package watch show how.
package watchtest
