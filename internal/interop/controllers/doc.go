// Package controllers has controllers as people write them with controller-runtime, each about one habit of controllers:
//
//	BucketReconciler       a finalizer, and something outside that is made and taken away, with retries
//	SiteReconciler         objects that it owns, mended when somebody changes them, collected with their owner
//	CertificateReconciler  conditions, observed generations, events, and work that is due after weeks
//	FleetReconciler        replicas, and Autoscaler, which sets them by a metric through the scale subresource
//	RouteReconciler        server-side apply to an object that it shares with others
//	PlacementReconciler    a server that refuses: for a while, which it waits for, or for good, which it reports
//
// The tests run every one of them, unchanged, against package apitest over function calls, over TLS, and inside a bubble of
// testing/synctest, where hours of back-off take no time; and, by hand, against kube-apiserver and etcd as envtest starts them
// (make controllers-envtest).
//
// Package interop, the neighbour above, has the same clients against servers with everything that can go wrong in between.
package controllers
