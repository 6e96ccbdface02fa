// Package kube serves Kubernetes' own kinds: the types of k8s.io/api, as they are, from the tags in their source. Nothing is
// generated and nothing of k8s.io/apiserver is linked.
//
//	Kinds          every stable group but those of custom resources and aggregation
//	kube-apiserver a program that takes the flags of the original and can stand in for it
//	etcd           a program that stands in for etcd where a test wants to start one
//
// What makes a kind more than its type is told here, one file for each area: scope and names, subresources, the columns of
// tables, the fields that selectors know, what is filled in and what is refused. Whoever serves a kind of their own finds
// in [Kinds] what there is to say about one.
//
// What the package is not for: it runs no controllers, no scheduler and no kubelet. A Deployment gets no pods, a pod never
// runs, and what would have to ask a kubelet answers that there is none.
package kube
