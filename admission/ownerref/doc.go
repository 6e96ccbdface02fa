// Package ownerref decides who may set owner references, like Kubernetes' plugin
// OwnerReferencesPermissionEnforcement.
//
// An owner reference is a way to have an object deleted. One with blockOwnerDeletion is a way to
// keep its owner from being deleted. Without this plugin, anyone who may write an object may do
// both. With it, a client that changes the references of an existing object needs the right to
// delete the object. A client that adds a blocking reference needs the right to update the
// subresource finalizers of the owner, whether or not the owner has such a subresource.
//
// The collector itself is a member of system:masters, which may do everything.
// kindwright.Access.CheckOwnerReferences adds the plugin to a server. Read package admission next.
// Source: GC-05.
package ownerref
