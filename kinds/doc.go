// Package kinds registers the kinds that clients of a Kubernetes-style server expect to find: namespaces, events, leases
// and the questions that clients ask the server about itself. A server serves none of them unless it is given them,
// usually all at once with ControlPlane.
//
// The Go types of reviews live with the packages that act on them (authn, authz); this package only says how they are
// served. Namespaces, events and leases are at home here. Namespaces come with their life cycle: objects are created only
// in namespaces that exist, and a namespace that is deleted takes its content with it before it goes. Events are served in
// two forms from one store, and expire. A client of them says where they are found:
//
//	namespaces := client.For(h, client.Resource[kinds.Namespace]{Version: "v1", Plural: "namespaces", ClusterScoped: true})
//	events := client.For(h, client.Resource[kinds.Event]{Group: "events.k8s.io", Version: "v1", Plural: "events"})
//	leases := client.For(h, client.Resource[kinds.Lease]{Group: "coordination.k8s.io", Version: "v1", Plural: "leases"})
//
// What the package is not for: it records no events and takes part in no election of leaders. Clients do both, by writing
// these kinds: see Recorder and Elect in package client. How a kind of one's own is described is told by package registry, the one to read next.
package kinds
