// Package kindwright serves Kubernetes-style resource APIs. A Go struct becomes an API that
// kubectl, client-go and controller-runtime use unmodified, from one binary, over an embedded
// store. The server needs no generated code; docs/controllers.md tells which code
// controller-runtime needs.
//
// A server is an http.Handler made by New from a store and the kinds it serves. Start runs the
// background work. Run adds a TLS listener and an ordered shutdown. A host with its own listener
// mounts the Server like any other handler.
//
// The packages below, from the ground up:
//
//   - meta, status: the nouns of the API, and its errors
//   - storage: the contract of a store; storage/memory, storage/bbolt and the module storage/etcd
//     implement it, storage/encrypt encrypts, storage/copy moves, storage/storagetest tests it
//   - openapi: schemas from Go structs; defaulting, pruning, validation, publishing
//   - watch: the live view of one resource, for lists and watches
//   - authn, authz, admission: who is asking, what they may do, and a server's own rules for writes
//   - registry: kinds and what belongs to them; registry/connect: subresources that clients connect
//     to
//   - kinds: the kinds that clients expect to find, such as Namespace; kinds/crd: kinds that
//     clients define
//   - client: a small typed client; apitest: a server inside a test
//   - health: /healthz, /livez, /readyz; metrics: what /metrics says, for other programs
//   - audit: records of what was done
//   - aggregate, extension: servers in front of others, and behind a Kubernetes cluster; egress: the
//     tunnels to them
//   - cel, apply: the rules in expressions, and who owns which field, for programs that need these
//     alone; config: files in the formats of kube-apiserver
//
// docs/questions.md says what to use for what.
//
// Without Authenticate and Authorize, clients may only read /healthz, /livez and /readyz.
//
// # In operation
//
//   - Log: a server logs through slog.Default unless LogTo says otherwise. When clients are told
//     "the server's log has the cause", the cause is only there.
//   - Memory: every served object is in memory as JSON, since reads copy it from there. Add at most
//     8 MiB of changes for each kind (Watches.LogBytes), 16 MiB of objects in other forms, and what
//     the backend keeps: bbolt 4 MiB of changes (bbolt.WithRecentBytes) and an index, memory all
//     changes of the last minutes (Watches.History). FreeMemoryWhenIdle returns the reserve of Go's
//     heap to the system.
//   - Backup: DB.Backup of package bbolt copies the store while it is in use, and Debug.Backup serves
//     such a copy over HTTP. The copy is a store: to restore it, put it in the place of the other.
//   - Versions: a later program may store a kind in another version, as long as it knows the
//     earlier one (registry.As). Stored objects are rewritten in the background; Server.Migrations
//     tells when the earlier version is no longer needed. Until then, a program that lacks it
//     refuses to start and names an object stored in it.
//   - Middleware: watches need an http.ResponseWriter that can flush. A wrapper needs a method Unwrap
//     or Flush. http.TimeoutHandler and writers that buffer the answer have neither: then watches
//     are answered 500, and the log says why. The timeouts of the host's http.Server do not cut
//     watches if the wrapper has Unwrap. Middleware that asks RequestFrom for verbs and resources,
//     for a log or metrics, is given to New with Before: around the server there are URLs only.
//   - End: the context of Start or Run ends first, then Wait or Run returns, then the caller closes
//     the backend.
//   - Several servers in one process: each has its own backend, or a view (storage.Prefix) of a
//     shared one.
//
// The order in which a request passes through a server is the list in chain.go. The order in which
// a write passes through the engine is the list in internal/engine/pipeline.go. To change the
// library itself, see docs/where.md.
package kindwright
