// Package apiserver has the families of metrics of an API server, under the names, with the labels
// and the buckets that dashboards and alerts for Kubernetes expect.
//
// Each subject is a value that registers its families: [Requests], [Access], [Admission], [Storage]
// and [Health]. The functions Collect… register families whose values exist elsewhere and are read
// during a scrape.
//
// # Requests
//
// [Requests.Serve] returns the handle of one served resource. A [Call] says the rest of what the
// labels need, in three small numbers. [Served.Begin] finds the [Row] of the call and begins to
// count, [Running.End] ends it. Neither looks up a string, and neither allocates once the first
// request of that sort has made its row. Requests for something that is not served go to
// [Requests.Unserved], whose labels are empty.
//
// A series is a number in a row, and gets its labels during a scrape. So the number of series
// follows from what is served: at most [Verbs] times [Scopes] times [DryRuns] for each resource,
// times the known codes. [Served.Release] removes those of a resource that is no longer served.
//
// A new family is an entry of rowFamilies and rowSamples if its labels follow from the row, and
// otherwise a part of one of the subjects, or a new one. The server makes the subjects in
// newMeters, in metrics.go of the root package, and calls most of them there.
//
// A family is here only if a server of ours has a true value for it. The latency of storage, for
// instance, is not called etcd_request_duration_seconds: there may be no etcd.
package apiserver
