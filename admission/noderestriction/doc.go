// Package noderestriction keeps a node's writes to its own objects, like Kubernetes' plugin
// NodeRestriction. A node is a user named system:node:<name> in the group system:nodes.
//
// A node writes its own Node object, without changing its taints, its owners or labels that steer
// workloads; its own lease and CSINode; and the state of pods that are bound to it. It creates
// mirror pods that use no other object, and asks for tokens that are bound to a pod on it. The
// plugin leaves all other users alone.
//
// The authorizer of package authz/node allows such writes by their URL. It cannot see the objects,
// so use both. The kinds may be of any Go types. Read package admission next.
// Source: NODEAZ-01.
package noderestriction
