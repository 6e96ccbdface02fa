// Command kube-apiserver serves Kubernetes' own kinds with the flags of the original. So it can run
// where tests expect the original: under KUBEBUILDER_ASSETS, or in a harness that starts its own
// server.
//
// It knows every flag of the original. It honours those that have a meaning here. It accepts the
// others with a warning that they have no effect. It rejects flags that the original does not have,
// by name.
//
// Objects are in a file below --data-dir. With --etcd-servers, the file is below the data directory
// of the etcd stand-in at that address. --etcd-prefix names the file. So two servers can share an
// etcd, and a server that returns with the same prefix finds its objects.
package main
