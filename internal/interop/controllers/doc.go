// Package controllers has typical controllers for controller-runtime. Each shows one pattern:
//
//	BucketReconciler       a finalizer, and an external resource that is created and deleted, with retries
//	SiteReconciler         owned objects, repaired when somebody changes them, collected with their owner
//	CertificateReconciler  conditions, observed generations, events, and work that is due after weeks
//	FleetReconciler        replicas, and Autoscaler, which sets them from a metric through the scale subresource
//	RouteReconciler        server-side apply to a shared object
//	PlacementReconciler    rejected requests: temporary ones, which it retries, and permanent ones, which it reports
//
// The tests run each of them, unchanged, against package apitest over function calls, over TLS, and
// in a bubble of testing/synctest, where hours of back-off take no time. By hand they also run
// against kube-apiserver and etcd, started by envtest (make controllers-envtest).
//
// Package interop, one directory up, runs the same clients against servers while connections fail
// and servers restart.
package controllers
