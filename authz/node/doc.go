// Package node authorizes nodes, as the mode Node of kube-apiserver does. A node is a user named
// system:node:<name> in the group system:nodes.
//
// A node reads the secrets, config maps, claims, volumes and accounts that a pod on it uses, and no
// others. It reads its own Node object, and lists the pods that are bound to it. It writes what a
// kubelet writes; the admission plugin of package noderestriction keeps those writes to its own
// objects, so use both. The authorizer has no opinion about other users.
//
// [New] returns an authorizer for kindwright.Authorize. It reads the stored JSON of pods, volumes,
// attachments and resource slices, so the Go types of these kinds do not matter. A server may lack
// some of the kinds, or all of them: no node is related to any object then. A change counts from
// the moment at which the write that made it is answered.
//
// [With] is for programs that know by other means which objects belong to a node, by a [Graph]. An
// [Index] is the graph that New uses. Read [github.com/kindwright/kindwright/authz] first.
package node
