// Package otel follows the requests of a server by OpenTelemetry.
//
// [Open] reads what a TracingConfiguration says and sends spans to a collector, by OTLP over gRPC and
// without TLS, as kube-apiserver does. [New] is for a program that has a provider of its own. Either is
// handed to kindwright.TraceTo.
//
// Who sends a request decides whether it is followed, by the header traceparent, if the server trusts them.
// For all others the sampler of the configuration decides, and a trace that they bring is only linked to.
// Queries and bodies of requests, credentials, and users are in no span.
//
// The package changes nothing that is global to the process: no provider, no handler of errors.
// Source: TRACE-01 to TRACE-05, the semantic conventions of OpenTelemetry for HTTP.
package otel
