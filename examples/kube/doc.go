// Package kube serves Kubernetes' own kinds. It uses the types of k8s.io/api unchanged, with the
// tags in their source. It generates no code and links nothing of k8s.io/apiserver.
//
//	Kinds          every stable group but those of custom resources and aggregation
//	kube-apiserver a program that takes the flags of the original and can stand in for it
//	etcd           a program that stands in for etcd where a test wants to start one
//
// Each area has a file that describes what a kind has beyond its type: scope and names,
// subresources, table columns, selectable fields, defaults and validation. [Kinds] shows, for
// authors of their own kinds, everything that can be said about a kind.
//
// The package runs no controllers, no scheduler and no kubelet. A Deployment gets no pods, and a
// pod never runs. Requests that need a kubelet report that there is none.
package kube
