// Package behind runs extension servers behind the aggregator of a host, and asks the host for them
// with kubectl, client-go, controller-runtime and Helm. The host is a kube-apiserver, or the stand-in of
// examples/kube; see the flag -peers and make extension-kube. Without the flag nothing runs.
package behind
