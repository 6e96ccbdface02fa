// Package authz decides whether a user may do what a request asks for.
//
// An [Authorizer] receives [Attributes] and returns a [Decision]: [Allow], [Deny] or [NoOpinion].
// [Union] combines authorizers in order, usually behind [Masters], and [Middleware] rejects every
// request that they do not allow. Nothing is allowed by accident: an error, a panic or an unknown
// decision rejects the request.
//
// [AllowPaths] opens paths that need no rights, such as the health endpoints that a load balancer
// probes.
//
// The package does not identify users; package authn does. It does not parse requests; the server
// passes the attributes from its own parse. It has no policy language; authorizers with rules of
// their own live below it. Read [github.com/kindwright/kindwright/authn] first.
package authz
