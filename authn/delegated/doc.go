// Package delegated authenticates as another API server says, the host. It is for servers that run
// behind the aggregator of a Kubernetes cluster.
//
//	host, err := delegated.InCluster(logFailure)
//	users, err := delegated.New(host, delegated.Options{})
//	go users.Run(ctx)
//
// A request may come from the host itself, which proves who it is as a front proxy and names the user
// in header fields. It may come from a user with a client certificate that the host would accept, or
// with a token, about which the package asks the host with a TokenReview. The authorities and the names
// of the header fields are what the host publishes in the config map
// extension-apiserver-authentication of namespace kube-system. [Authenticator.Run] follows it, so an
// authority that is gone counts no more. What cannot be read changes nothing; [Authenticator.Check]
// says so.
//
// The neighbour authz/delegated asks the host what users may do. Package extension has both, and all
// else that such a server needs.
//
// Source: AUTHN-21, REVIEW-06.
package delegated
