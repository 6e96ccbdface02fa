// Package request parses a request once and strictly: its method, path and query, before any other
// code acts on it.
//
// Authorization, audit and the handlers all read the [Info] that [Parser.Parse] returns, so what
// was authorized is what happens (security vectors, rule 5). A request that does not parse
// completely is rejected with a Status error. The parser does not clean paths, redirect or guess:
//
//   - It splits the escaped path first, then decodes each segment, then checks it, so an encoded
//     slash never makes a new segment.
//   - It reads the raw query by itself. net/url drops pairs it cannot read, and a collection delete
//     that loses its selector deletes everything.
//   - It reads parameters for the verbs they apply to and ignores them elsewhere, like unknown ones
//     (QUERY-18).
//   - It bounds every cost: see [MaxPathBytes], [MaxQueryBytes] and [MaxParameters].
//
// Parse answers 400, 404 and 405. Errors that depend on several parameters, such as a forbidden
// combination of list options, are a 422 that names fields. The Validate methods of [Query] report
// them after authorization.
//
// The package does not know which kinds are served, reads no bodies and negotiates no media types.
// Read package internal/rest next.
package request
