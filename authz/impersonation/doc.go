// Package impersonation lets a caller act as another user, if an authorizer allows it. A client
// names the user in Impersonate-* headers, as kubectl does for --as.
//
// [Middleware] stands behind [authn.Middleware], which must be told to hand the headers on
// ([authn.WithImpersonation]), and in front of [authz.Middleware]:
//
//	authenticate → impersonate → authorize
//
// It asks the authorizer before the impersonation takes effect. From then on only the rights of the
// impersonated user count. There are two ways to be allowed:
//
//   - constrained (KEP-5284): the sender needs the verb impersonate-on:<mode>:<verb> on what the
//     request asks for, and impersonate:<mode> on each part of the identity. The mode follows from
//     the identity: user-info, serviceaccount, arbitrary-node or associated-node.
//   - plain: the sender needs the verb impersonate on each part of the identity, and may then do
//     everything that the impersonated user may.
//
// The package remembers no decisions, so a right that was revoked counts no longer at the next
// request.
//
// Read [authz] next.
// Source: IMP-01 to IMP-05.
package impersonation
