// Package status turns Go errors into the Status documents of the API. It also finds the reason of
// any error and collects the problems of an object's fields.
//
// Lower layers return plain facts: a key, a revision, a cause. The code that knows the resource of
// a request builds an [*Error] with [NotFound], [Conflict], [Invalid] and so on. [From] converts
// any other error and keeps texts that are not meant for clients inside the process. Messages are
// for people and reasons for programs: test with [IsNotFound] and its siblings or with [ReasonOf].
//
// It is not for storage errors, which package storage defines, and it does not log. Errors and
// paths are immutable, so goroutines may share them. A [Fields] collector belongs to one call.
//
// Read package meta for the documents themselves.
package status
