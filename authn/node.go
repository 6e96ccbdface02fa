package authn

import "strings"

// The names of nodes. A kubelet is a user of this form, and only a credential makes one.
const (
	// NodePrefix begins the name of a node's user; the name of the node follows.
	NodePrefix = "system:node:"

	// GroupNodes contains the nodes. A user outside of it is no node, whatever its name.
	GroupNodes = "system:nodes"
)

// Node reports whether the user is a node, and which. The name is empty if the credential does not
// say which node it is; such a user must not act as any.
// Source: NODEAZ-01.
func (u User) Node() (name string, ok bool) {
	name, ok = strings.CutPrefix(u.Name, NodePrefix)
	if !ok || !u.In(GroupNodes) {
		return "", false
	}
	return name, true
}
