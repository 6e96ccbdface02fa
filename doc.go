// Package kindwright serves Kubernetes-style resource APIs: a Go struct becomes an API that kubectl, client-go and
// controller-runtime use unmodified, from one binary, over an embedded store, without generated code.
//
// A server is an http.Handler made by New from a store and the kinds it serves. Start runs what works in the background,
// Run adds a TLS listener and an ordered shutdown, and a host that has its own listener mounts the Server like any other
// handler.
//
// The packages below, from the ground up:
//
//   - meta, status: the nouns of the API, and its errors
//   - storage: the contract of a store; storage/memory and storage/bbolt fulfil it, storage/storagetest proves it
//   - openapi: schemas from Go structs; defaulting, pruning, validation, publishing
//   - watch: the live view of one resource, for lists and watches
//   - authn, authz, admission: who is asking, what they may do, and a server's own rules about writes
//   - registry: kinds, and what the verbs mean; registry/rest: its REST protocol
//   - kinds: the kinds that clients expect to find, such as Namespace
//   - client: a small typed client; apitest: a server inside a test
//   - health: /healthz, /livez, /readyz
//
// Without Authenticate and Authorize nobody may do anything but read /healthz, /livez and /readyz.
//
// # In operation
//
//   - Log: a server says nothing unless it is given LogTo. What clients are told as "the server's log has the cause" is
//     there alone.
//   - Memory: every object that is served is in memory as JSON, since reads copy it from there. To that come at most 8 MiB of
//     changes for each kind (Watches.LogBytes), 16 MiB of objects in other forms, and what the backend keeps: bbolt 16 MiB of
//     changes (bbolt.WithRecentBytes) and an index, memory all of the last minutes (Watches.History). FreeMemoryWhenIdle gives
//     back what Go's heap has in reserve.
//   - Backup: DB.Backup of package bbolt copies the store while it is in use, and its file is a store: to restore, put it in
//     the place of the other.
//   - Versions: a later program may store a kind in another version, as long as it knows the earlier one (registry.As). What is
//     stored is written anew in the background; Server.Migrations tells when the earlier version is needed no more. Before that,
//     a program without it does not start, and names an object.
//   - End: the context of Start or Run ends first, then Wait or Run returns, then the backend is closed.
//   - Several servers in one process: each has a backend of its own or a view, storage.Prefix, of one that they share.
//
// The order in which a request passes through a server is the list in chain.go; the order in which a write passes through
// the engine is the list in registry/pipeline.go.
package kindwright
