// Package request is the one strict parse of a request: its method, path and query, before anybody acts on it.
//
// Authorization, audit and the handlers all read the [Info] that [Parser.Parse] returns, so that what was authorized
// is what happens (security vectors, rule 5). Whatever does not parse completely is refused with a Status error; there
// is no tidying of paths, no redirect and no guess:
//
//   - the escaped path is split first, then each segment is decoded, then it is checked, so that an encoded slash
//     never makes a new segment;
//   - the raw query is read by hand, since net/url drops pairs it cannot read, and a selector that vanishes from a
//     collection delete deletes everything;
//   - parameters are read for the verbs they apply to and ignored elsewhere, as unknown ones are (QUERY-18);
//   - every cost is bounded: see [MaxPathBytes], [MaxQueryBytes] and [MaxParameters].
//
// Parse answers 400, 404 and 405. What can only be judged as a whole, such as a forbidden combination of list options,
// is a 422 that names fields and comes after authorization: the Validate methods of [Query].
//
// What the package is not for: it does not know which kinds are served, reads no bodies and negotiates no media
// types. Read package registry/rest next.
package request
