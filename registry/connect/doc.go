// Package connect serves connections to objects, such as `pods/exec`, `pods/portforward` and `pods/proxy`.
// An Endpoint is a subresource whose handler is an ordinary HTTP handler with two more arguments: the
// object and the options of the request. Put it into registry.Kind.Subresources.
//
// A handler may answer like any other, or take over the connection. Upgrade switches it to another
// protocol and returns the net.Conn. AcceptWebSocket returns a WebSocket (RFC 6455). The package
// implements no other protocol: libraries for SPDY or HTTP/2 tunnels work with the same two values.
//
// Package registry has the other endpoints: documents, views, actions and streams. It does not know
// net/http, which is why connections have a package of their own. Package client has the other side:
// Sub.Connect.
package connect
