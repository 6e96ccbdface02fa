// Package accessflags has kube-apiserver's flags that say who authorizes requests, and which webhook
// authenticates tokens. A program adds them to its flag set and says which modes it has itself.
package accessflags
