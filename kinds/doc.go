// Package kinds registers the kinds that clients of a Kubernetes-style server expect to find: namespaces and the
// questions that kubectl asks about itself. A server serves none of them unless it is given them, usually all at once
// with ControlPlane.
//
// The Go types of reviews live with the packages that act on them (authn, authz); this package only says how they are
// served. Namespaces are at home here, with their life cycle: objects are created only in namespaces that exist, and a
// namespace that is deleted takes its content with it before it goes.
package kinds
