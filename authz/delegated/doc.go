// Package delegated authorizes as another API server says, the host, with SubjectAccessReviews. It is
// for servers that run behind the aggregator of a Kubernetes cluster, whose roles then decide here too.
//
//	host, err := authndelegated.InCluster(logFailure)
//	authorizer, err := delegated.New(host, delegated.Options{})
//
// Those who ask the same at the same time share one question. An answer is remembered for ten seconds.
// While the host does not answer, what is remembered counts, and all else is refused with an error that
// asks the client to retry: the answer is 503, and nothing is allowed. Members of system:masters and
// reads of the health paths are allowed without a question, so that the host can look whether the server
// is there.
//
// The neighbour authz/webhook asks any server that answers reviews, and has other policies about its
// failures. The neighbour authn/delegated asks the host who a user is.
//
// Source: AUTHZ-06, AUTHZ-17, REVIEW-01.
package delegated
