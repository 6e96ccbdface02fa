// Package aggregate lets a server answer for other API servers, as kube-aggregator does. Objects of
// the kind APIService say which server has which group version:
//
//	behind, err := aggregate.New(aggregate.Config{Certificate: files.Certificate})
//	srv, err := kindwright.New(db, kindwright.Serve(kinds.ControlPlane()), kindwright.Aggregate(behind))
//
// Requests for the group versions of a back end pass the whole chain of this server first: they are
// authenticated, audited, limited and authorized here. Then they are sent on with the user in headers,
// under a client certificate that the back end trusts. Discovery and both OpenAPI documents describe the
// kinds of all servers together.
//
// A back end is another server that may be slow, broken or hostile. What it can do is bounded: it is
// asked in the background for what the documents need, its failure stays its own, and it cannot take
// over a group version that this server has.
//
//	apiservice.go, kind.go, validation.go   the kind
//	controller.go                           follows the objects, and makes those of this server's groups
//	backend.go, fetch.go, discovery.go      what is known of a back end, asked every 30 seconds
//	proxy.go, identity.go, places.go        requests on their way
//	service.go, transport.go                where a service listens, and the connections to it
//	merge.go, openapi.go                    the documents
//
// For the other side, a server behind an aggregator, see package authn/requestheader. For kinds that
// have no server of their own, see package kinds/crd.
package aggregate
