// Package behind runs extension servers behind the aggregator of a host, and asks the host for them
// with kubectl, client-go, controller-runtime and Helm. The host is the stand-in of examples/kube. With
// the flag -peers it is a kube-apiserver; see make extension-kube.
package behind
