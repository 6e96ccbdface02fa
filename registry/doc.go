// Package registry is what users write: kinds and what goes with them. The engine that serves them is internal; Objects is its
// face, and For and From put Go structs in front of it.
//
// A kind is a value: Kind[T] is described by a Go struct, Resource is the same without one, and plain data. Forms made by As are
// further versions in which the same objects are served. Endpoints are paths below an object: ScaleSubresource, View, Query,
// Action, Stream, connect.Endpoint, or a Subresource by hand. A Definition is one or more kinds with what belongs to them.
//
// Objects travel in two forms. At rest and in the live view (package watch) an object is canonical JSON, which reads
// copy to the client without decoding. Only writes decode: the body becomes a tree, walks an ordered list of steps, and is encoded
// once. A tree is map[string]any, []any, string, bool, nil, int64, float64 and nothing else, and is never changed after a step has
// handed it on: whoever wants a different tree makes one. The tree is the truth; the struct that a typed hook is given is a view of
// it, and fields the struct does not know survive.
//
// Errors are *status.Error values that say what a client may know; anything else is an internal error whose text is never sent.
package registry
