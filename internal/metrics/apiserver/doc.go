// Package apiserver has the families of metrics of an API server, under the names, with the labels and
// the buckets that dashboards and alerts for Kubernetes expect.
//
// Each subject is a value that registers its families: [Requests], [Filters], [Access], [Admission] and
// [Health]. Their handles are made when the server is put together or when a kind is installed. The
// functions Collect… register families whose values exist elsewhere and are read during a scrape.
//
// # Requests
//
// [Requests.Serve] returns the handle of one served resource, which the server keeps beside the
// resource's description. [Target.Call] reduces a parsed request to a [Call], three small numbers; and
// [Served.Observe] uses them as indices of a table. Neither looks up a string, and neither allocates
// once the first request of that sort has made its series. Requests for something that is not served go
// to [Requests.Unserved], whose labels are empty.
//
// So the number of series follows from what is served: at most [Verbs] times [Scopes] times [DryRuns]
// for each resource, times the known codes. [Served.Release] removes those of a resource that is no
// longer served.
//
// A family is here only if a server of ours has a true value for it. The latency of storage, for
// instance, is not called etcd_request_duration_seconds: there may be no etcd.
package apiserver
