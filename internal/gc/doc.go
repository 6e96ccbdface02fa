// Package gc is the garbage collector: it deletes objects whose owners are gone, and carries out the deletion policies
// Foreground and Orphan (GC-01 to GC-04, DEL-10).
//
// A [Collector] learns of objects as the observer of the live views, without a watch or a goroutine per kind. It keeps one
// index, from the uid of an owner to the objects that name it, and a queue of objects to look at. Objects without owners are
// in neither. What it decides, it decides by reading live (design rule 23):
//
//   - An owner is found by what a reference says, kind, name and the namespace of the dependent, and counts only if it has
//     the uid of the reference. An owner in another namespace is absent. An owner that waits for its own dependents to go is
//     as good as absent.
//   - A dependent all of whose owners are absent is deleted, under the condition that it is what was looked at, by uid and
//     version. If some owner is present, the references to the absent ones are removed and nothing else.
//   - A reference to a kind that is not served says nothing. It is looked at again when kinds come and go, and now and then.
//   - The finalizers of the two policies are taken off only when all kinds show everything up to the revision at which the
//     deletion was marked, and no object that names the owner is of a kind that is not served.
//   - Owners that wait for each other are found by walking up from one of them; the last one to wait stops blocking the others.
//
// All writes go through the engine, as the user system:serviceaccount:kube-system:generic-garbage-collector: admission and the
// rules of kinds have their say. What they refuse is tried again, ever more rarely.
//
// It does not decide which policy a deletion has; that is package registry, the neighbour to read next.
package gc
