// Package connection reaches webhooks: the servers that a server asks or tells something.
//
// [Read] reads a connection file, which has the form of a kubeconfig, and follows the certificates
// and keys that it names. A credential plugin may give the credential. [Connection.Post] sends a
// document and returns the answer. It follows no redirect and bounds the answer. [Retry] repeats what
// may succeed the next time.
//
// What is sent, and what an answer means, is the business of the packages audit/webhook,
// authn/webhook and authz/webhook.
package connection
