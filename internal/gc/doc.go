// Package gc is the garbage collector. It deletes objects whose owners are gone, and carries out
// the deletion policies Foreground and Orphan (GC-01 to GC-04, DEL-10).
//
// A [Collector] learns of objects as the observer of the live views, without a watch or a goroutine
// per kind. It keeps one index, from the uid of an owner to the objects that name it, and a queue
// of objects to process. Objects without owners are in neither. Every decision is based on live
// reads (design rule 23):
//
//   - An owner is found by the kind and name in the reference and the namespace of the dependent.
//     It counts only if it has the uid of the reference. An owner in another namespace is absent.
//     An owner that waits for its own dependents to be deleted counts as absent too.
//   - A dependent is deleted when all of its owners are absent. The deletion is conditional on the
//     uid and version that were read. If some owner is present, only the references to the absent
//     ones are removed.
//   - A reference to a kind that is not served decides nothing. It is retried when kinds come and
//     go, and from time to time.
//   - The finalizers of the two policies are removed only when two conditions hold. All kinds show
//     everything up to the revision at which the deletion was marked, and no object that names the
//     owner is of a kind that is not served.
//   - Owners that wait for each other are found by walking up from one of them. The last one to
//     wait stops blocking the others.
//
// All writes go through the engine, as the user
// system:serviceaccount:kube-system:generic-garbage-collector, so admission and the rules of kinds
// apply. Rejected writes are retried with increasing delays.
//
// This package does not decide which policy a deletion has. internal/engine does, in delete.go;
// read it next.
package gc
