// Package abac authorizes by a file of policies, one JSON object on each line:
//
//	{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy",
//	 "spec": {"user": "alice", "namespace": "shop", "resource": "widgets", "apiGroup": "*", "readonly": true}}
//
// A policy grants and never denies. A request that no policy matches is left to other authorizers.
// The file is read once: changes need a restart. Roles and bindings of package authz/rbac can change
// while a server runs, and tell subresources and verbs apart.
// Source: ABAC-01 to ABAC-05.
package abac
