// Package status is the one ring of errors: it turns facts into the Status documents of the API,
// answers for any error what its reason is, and collects the problems of an object's fields.
//
// Lower floors return plain facts (a key, a revision, a cause). The code that knows which resource
// a request was about builds an [*Error] with [NotFound], [Conflict], [Invalid] and so on; [From]
// makes one of any error, and keeps the text of errors nobody meant for clients inside the process.
// Messages are for people, reasons for programs: ask with [IsNotFound] and its siblings or with
// [ReasonOf].
//
// It is not for storage errors (package storage has its own) and does not log. Errors and paths
// never change after they were made and may be shared by goroutines; a [Fields] collector belongs
// to one call.
//
// Read package meta for the documents themselves.
package status
