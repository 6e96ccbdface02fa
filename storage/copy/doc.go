// Package copy moves a store into another one, of any kind, while it is served.
//
// [Begin] copies everything that there is and catches up with what changed meanwhile.
// [Follower.Keep] goes on doing that until the writers have been stopped. [Follower.Finish] takes
// the last changes over and gives the target free. [Copy] does all of it for a source that nobody
// writes to. The programs of kindwright-store are made of these.
//
// # What a target is until it is finished
//
// The first thing that is written to a target is a mark, and the last thing is its removal. A server
// does not start on a store that has it; see [Unfinished]. A copy that was interrupted is begun again with
// the same calls: what the target has already is not written once more. [Clear] empties a target
// that is not to be finished.
//
// # Revisions
//
// Records keep their revisions if the target is a [storage.Importer], as those of storage/bbolt and
// storage/etcd are. Then an object that did not change has the resourceVersion that clients know.
// The target itself goes on above all revisions of the source, and above the present time in microseconds, which
// is above what a lost store has given out. Everything before counts as compacted: a client that
// resumes a watch is told to list again, and finds unchanged objects unchanged. No revision is given
// out twice.
//
// Into other targets records are written by ordinary commits. They get new revisions, which are
// above all that the source gives out. Clients then see each object as changed once.
//
// # Wrappers
//
// Bytes are copied as the two backends show them. For the bytes as they are stored, encrypted ones
// among them, hand over the backends themselves: that is what kindwright-store does. To encrypt, decrypt or
// encrypt anew on the way, wrap them. A wrapper is no Importer, so records get new revisions then.
package copy
