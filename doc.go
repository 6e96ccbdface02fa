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
// The order in which a request passes through a server is the list in chain.go; the order in which a write passes through
// the engine is the list in registry/pipeline.go.
package kindwright
