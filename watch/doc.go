// Package watch is the live view of the store: for each kind the current objects, snapshots of
// earlier states, and everyone who watches for changes.
//
// A [Dispatcher] follows the whole store with one watch and feeds one [Cache] per kind. A cache
// keeps every object as an [Entry]: its JSON, ready to be written, and the facts that selectors
// need. Reads do not decode anything.
//
//   - To read one object use [Cache.Get]; for the newest state call [Cache.Fresh] first.
//   - To list use [Cache.Snapshot], or [Cache.SnapshotAt] for an exact revision, then
//     [Snapshot.Ascend]. A snapshot shares its memory with the live index until that changes.
//   - To watch use [Cache.Watch] after a revision, or [Cache.WatchFromSnapshot] to start with the
//     current state. Both return a [Cursor].
//   - To wait for your own write use [Cache.WaitFor] with the revision that Commit returned.
//
// # Cursors
//
// A watcher is a cursor over a log that it shares with all others, not a buffer. This has three
// consequences. A slow reader costs only its position. A watcher without matching changes has no
// position at all, so it cannot fall behind. Ten thousand such watchers do not slow down a commit,
// because commits look them up by namespace, name, declared field and label. And a watcher that
// falls behind the log in memory continues in the store's history and rejoins the log at an exact
// revision. It ends with storage.ErrCompacted only if the store has compacted the history too.
//
// # Revisions
//
// The dispatcher first applies a commit to every cache it touches, then publishes the commit's
// revision, and wakes others last. So a cache is complete up to the published revision or its own
// last change, whichever is greater. Snapshots and bookmarks carry that revision, read under the
// same lock as changes. An idle kind thus advances with the others, and its watchers' bookmarks
// never become too old to resume from.
//
// # What it is not
//
// The package knows nothing of HTTP, of frames other than JSON lines, of tables and continue
// tokens, or of when to send a bookmark: internal/engine and the handlers of internal/rest decide
// that. It does not write. Package storage defines revisions, history and their limits; read it
// first. Then read internal/engine, which uses this one. Package watchtest checks recorded event
// streams against the commits.
package watch
