// Package kinds defines the built-in kinds that clients of a Kubernetes-style server expect:
// namespaces, events, leases, and the reviews of authentication and authorization. A server serves
// them only on request, usually all at once through ControlPlane. ConfigMaps, Secrets and
// ServiceAccounts are optional and served one by one.
//
// Namespaces have a life cycle: objects can only be created in existing namespaces, and deleting a
// namespace deletes its contents first. Events are stored once, served in two forms, and expire.
// The Go types of reviews live in the packages that answer them, authn and authz. Clients find the
// other kinds here:
//
//	namespaces := client.For(h, client.Resource[kinds.Namespace]{Version: "v1", Plural: "namespaces", ClusterScoped: true})
//	events := client.For(h, client.Resource[kinds.Event]{Group: "events.k8s.io", Version: "v1", Plural: "events"})
//	leases := client.For(h, client.Resource[kinds.Lease]{Group: "coordination.k8s.io", Version: "v1", Plural: "leases"})
//
// The package does not record events or elect leaders; see Recorder and Elect in package client. To
// define your own kinds, read package registry next.
package kinds
