// Package entries has the rules about the entries of config maps and secrets. Package kinds serves
// these kinds with plain Go structs, and examples/kube with those of k8s.io/api; both follow the
// rules here.
//
// It does not define kinds or defaults: read package kinds next.
package entries
