// Package client reads and writes the objects of a resource API as Go structs, over any
// http.Client. It needs nothing generated: a kind that a server serves is also the description that
// a client wants.
//
//	c := client.For(srv.Client(), Widgets)
//	w, err := c.Get(ctx, meta.Key{Namespace: "default", Name: "a"})
//
// What a client has to do so that the API keeps its promises is done here once:
//
//   - versions are opaque: they are compared for equality and handed back as they came, never put
//     in order (GET-01);
//   - lists come in pages, and begin anew when a page's token has expired (List, Pages; ERR-10,
//     LIST-31, LIST-32);
//   - a watch goes on after every interruption from the last version it saw, and after a 410 lists
//     anew (Watch; WATCH-18);
//   - Retry-After is honoured (ERR-12);
//   - fields that the Go type does not know survive an update (Update, Modify; UPDATE-04);
//   - answers of any size are read within a bound.
//
// Objects are changed by Update and Modify, which read first, by Patch with any of the five kinds
// of patches, server-side apply included, and below their path: SubOf makes clients of
// subresources, such as scale, that exchange forms of their own, stream, or connect.
//
// Errors that the server answered with are *status.Error, so that status.IsNotFound and its like
// work on both sides.
//
// InProcess is the other half: a http.RoundTripper that calls a handler in the same process, with
// the behaviour of a connection and without its sockets.
//
// Two things that controllers need beside reading and writing are made of these: Elect has one of
// several processes lead (LEASE-02), and a Recorder tells people what happens, as Events (EVT-31).
//
// The package is no cache and no controller: it has no background work, and every goroutine that
// reads is the caller's. Package apitest puts a server behind such a client for tests; package
// registry makes kinds that servers serve.
package client
