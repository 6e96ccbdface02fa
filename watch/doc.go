// Package watch is the live view of what is stored: for each kind the objects as they are now,
// snapshots of how they were, and everyone who wants to hear of changes.
//
// A [Dispatcher] follows the whole store with one watch and feeds one [Cache] per kind. A cache
// keeps every object as an [Entry]: its JSON, ready to be written, and the facts that selectors ask
// for. Nothing is decoded to answer a read.
//
//   - Reading one object: [Cache.Get]. Reading the newest: [Cache.Fresh] before it.
//   - Listing: [Cache.Snapshot], or [Cache.SnapshotAt] for an exact revision, then
//     [Snapshot.Ascend]. A snapshot shares its memory with the live index until that changes.
//   - Watching: [Cache.Watch] after a revision, or [Cache.WatchFromSnapshot] for the state first.
//     Both give a [Cursor].
//   - Waiting for one's own write: [Cache.WaitFor] the revision that Commit returned.
//
// # Cursors
//
// A watcher is a cursor over a log that it shares with all others, not a buffer. Three things
// follow. A slow reader costs nothing but its position. A watcher that nothing concerns has no
// position at all, so it cannot be overtaken, and ten thousand of them do not make a commit slower:
// commits look them up by namespace, name, declared field and label. And a watcher that the log in
// memory has left behind goes on in the store's history and comes back at an exact revision; it
// ends with storage.ErrCompacted only when the store has forgotten as well.
//
// # Revisions
//
// The dispatcher applies a commit to every cache it touches before it publishes the commit's
// revision, and wakes others last. So a cache is complete up to the greater of the published
// revision and its own last change. Snapshots and bookmarks carry that revision, read under the
// lock that changes are made under: an idle kind moves on with the others, and its watchers'
// bookmarks never grow too old to resume from.
//
// # What it is not
//
// It knows nothing of HTTP, of frames other than JSON lines, of tables, continue tokens, or when to
// send a bookmark: package registry and its REST handlers decide that. It writes nothing.
// Revisions, history and their limits are those of package storage, which is the neighbour to read
// first; then package registry, which uses this one. Package watchtest checks recorded streams of
// events against what was committed.
package watch
