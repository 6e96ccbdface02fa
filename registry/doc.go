// Package registry is the engine of a server: the kinds it serves, and what reading and writing their objects means.
// It knows nothing of HTTP; package registry/rest puts the REST protocol on top of it.
//
// A kind is a value: Kind[T] is the typed front that users write, Resource the untyped description the engine works
// with. The kinds of a server are a Set, an immutable snapshot that is swapped as a whole, so that kinds can come and
// go while the server runs and every request sees one consistent picture.
//
// Objects travel in two forms. At rest and in the live view (package watch) an object is canonical JSON, which reads
// copy to the client without decoding. Only writes decode: the body becomes a tree, walks the ordered list of steps in
// pipeline.go, and is encoded once. A tree is map[string]any, []any, string, bool, nil, int64, float64 and nothing
// else, and is never changed after a step has handed it on: whoever wants a different tree makes one. The tree is the
// truth; the struct that a typed hook is given is a view of it, and fields the struct does not know survive.
//
// A kind is stored in one form and may be served in others: versions, or another group. A Set therefore holds what is stored
// besides what clients can ask for. Every record says in which form it was written, and is brought to the present one when it is
// read (records.go); a write through another form changes in the stored object what it changes in the form (carry.go).
//
// Code in the server's process uses For in a rule and From elsewhere, which put Go structs in front of
// the verbs.
//
// The verbs are methods of Engine: Get, List, Watch, Create, Update, Patch, Delete, DeleteCollection; and for subresources
// that have documents of their own (Endpoint) Ask, Open and Connect besides. Errors are *status.Error values that say what
// a client may know; anything else is an internal error whose text is never sent.
package registry
