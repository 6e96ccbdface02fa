// Package audit records who did what on a server, and when.
//
// A [Policy] says which requests are recorded and how much of them: the first rule that matches a
// request decides. A [Sink] receives the records, each of which is one [Event] in JSON. Packages
// audit/log and audit/webhook are sinks; a program can write its own.
//
//	policy, err := audit.ParsePolicy(document)
//	sink, err := log.Open("/var/log/audit.json", log.Options{})
//	server, err := kindwright.New(db, kindwright.Audit(policy, sink))
//
// The server makes one record for each stage of a request that the policy keeps: when it has come
// in, when the answer to a watch or a connection begins, when the request has ended, and when it
// panicked. Requests that the server rejects are recorded too: those that cannot be parsed or
// authenticated, and those that are not allowed.
//
// # Secrets
//
// A record never has a header of the request except User-Agent and the addresses of proxies, so no
// token is in it. At the levels Request and RequestResponse it has the bodies. Bodies of secrets,
// TokenReviews and TokenRequests are no exception, as in Kubernetes: a policy should have a rule
// with level Metadata for secrets, config maps, tokenreviews and serviceaccounts/token before the
// rules that keep bodies.
//
// The package has no I/O and does not know the server.
// Source: AUD-31.
package audit
