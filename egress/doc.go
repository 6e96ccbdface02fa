// Package egress sends the connections of a server to other servers through tunnels.
//
// A server may have no route to what it asks: nodes, pods and services are in another network, or
// nothing may leave the control plane but through a proxy. An EgressSelectorConfiguration names, for
// each kind of traffic, the tunnel server that connects in the server's place.
//
//	selector, err := egress.Load("egress.yaml", egress.Options{})
//	srv, err := kindwright.New(db, kindwright.Egress(selector), …)
//
// [Selector.Dialer] returns what connects for a kind of traffic: [ControlPlane] for webhooks that the
// operator has configured and for those with a URL, [Cluster] for what runs in the cluster, [Etcd] for
// the store. A tunnel that fails is a failure of the connection. Nothing connects without it then.
//
// HTTP CONNECT is built in, over TCP with or without TLS, and over a Unix socket. For the protocol GRPC,
// give the tunnels of the module egress/konnectivity to [Options.GRPC].
// Source: EGRESS-01 to EGRESS-14.
package egress
