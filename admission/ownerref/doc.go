// Package ownerref decides who may set owner references (GC-05), as Kubernetes' plugin OwnerReferencesPermissionEnforcement
// does.
//
// An owner reference is a way to have an object deleted, and one with blockOwnerDeletion a way to keep its owner from going.
// Without this plugin whoever may write an object may do both. With it, changing the references of an object that exists
// needs the right to delete the object, and a reference that newly blocks its owner the right to update the subresource
// finalizers of the owner, whether there is such a subresource or not.
//
// The collector itself is a member of system:masters, which may do everything. Package admission is the neighbour to read
// next; kindwright.Access.CheckOwnerReferences puts the plugin into a server.
package ownerref
