// Package bootstrap authenticates the bootstrap tokens of Kubernetes. A machine that joins a cluster
// has one, and nothing else, to ask for a credential of its own.
//
// A token such as abcdef.0123456789abcdef is kept in the Secret bootstrap-token-abcdef of the namespace
// kube-system. [New] makes an authenticator for a server that serves Secrets; [Tokens] works alone.
package bootstrap
