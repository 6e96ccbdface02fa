// Package authz answers whether a user may do what a request asks for.
//
// An [Authorizer] is asked with [Attributes] and answers with a [Decision]: [Allow], [Deny] or
// [NoOpinion]. Authorizers are put in order with [Union], usually behind [Masters], and mounted
// with [Middleware], which refuses everything that was not allowed. Nothing is allowed by accident:
// an error, a panic or an answer outside the three decisions refuses the request.
//
// Paths that must be reachable without any right, such as the health endpoints probed by a load
// balancer, are listed with [AllowPaths].
//
// What the package is not for: it does not find out who is asking, that is package authn; it does
// not parse requests, the server hands it the attributes of its one strict parse; and it knows no
// policy language, authorizers with rules of their own live below it. Read
// [github.com/kindwright/kindwright/authn] first.
package authz
