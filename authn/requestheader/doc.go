// Package requestheader authenticates users whom a front proxy has authenticated: the proxy proves
// who it is with its client certificate, and names the user in header fields.
//
// The fields count in requests of verified proxies only. [authn.Middleware] removes them from every
// request before the next handler runs, whoever sent it and however the name is spelled. It asks the
// authenticator which fields these are.
//
// Use an authority for proxies that signs nothing else. With an authority that also signs users, the
// list of the proxies' names is all that keeps a user from being a proxy.
// Source: AUTHN-21.
package requestheader
