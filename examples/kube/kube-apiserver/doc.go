// Command kube-apiserver serves Kubernetes' own kinds with the flags of the original. So it can run
// where tests expect the original: under KUBEBUILDER_ASSETS, or in a harness that starts its own
// server.
//
// It knows every flag of the original. It honours those that have a meaning here. It accepts the
// others with a warning that they have no effect. It rejects flags that the original does not have,
// by name.
//
// Objects are in a file below --data-dir. With --etcd-servers, they are in etcd. If the etcd stand-in
// is at that address, they are in a file below its data directory, which --etcd-prefix names. So two
// servers can share an etcd, and a server that returns with the same prefix finds its objects.
package main
