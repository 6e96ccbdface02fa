// Command kube-apiserver serves Kubernetes' own kinds with the flags of the program of that name, so that it can be put
// where tests expect the original: under KUBEBUILDER_ASSETS, or in a harness that starts a server of its own.
//
// Every flag of the original is known. Those that mean something here are honoured; the others are accepted, and a warning
// says that they have no effect. A flag that the original does not have is refused by its name.
//
// Objects are kept in a file below --data-dir, or, with --etcd-servers, below the data directory of the stand-in for etcd
// that answers there; --etcd-prefix names the file, so that two servers can share an etcd, and one that comes back with
// the same prefix finds its objects.
package main
