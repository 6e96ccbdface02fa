// Package client reads and writes the objects of a resource API as Go structs, over any
// http.Client. It needs no generated code: the description of a kind that a server uses also
// configures the client.
//
//	c := client.For(srv.Client(), Widgets)
//	w, err := c.Get(ctx, meta.Key{Namespace: "default", Name: "a"})
//
// The package implements the client's side of the protocol once:
//
//   - versions are opaque: the client compares them for equality, hands them back unchanged, and
//     never orders them;
//   - lists come in pages, and restart when the token of a page has expired (List, Pages);
//   - a watch resumes after every interruption from the last version it saw, and lists again after
//     a 410 (Watch);
//   - requests wait as long as Retry-After says, or as WithMaxWait allows;
//   - updates keep fields that the Go type does not know (Update, Modify);
//   - the size of every response is limited.
//
// Update and Modify change an object that was read. Patch sends any of the five kinds of patches,
// including server-side apply. SubOf returns a client for a subresource that has its own type, such
// as scale, or that streams or connects.
//
// An error that the server sent is a *status.Error, so status.IsNotFound and its siblings work on
// both sides.
//
// InProcess is an http.RoundTripper that calls a handler in the same process. It behaves like a
// connection but needs no sockets.
//
// Two parts of most controllers are built on the client: Elect runs a leader election between
// processes, and a Recorder writes Events for people.
//
// The package has no cache and no controllers. It does no work in the background: every goroutine
// that reads is the caller's. Package apitest provides a server for tests; package registry defines
// the kinds of a server.
// Source: GET-01, ERR-10, LIST-31, LIST-32, WATCH-18, ERR-12, UPDATE-04, LEASE-02, EVT-31.
package client
