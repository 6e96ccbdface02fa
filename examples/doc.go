// Package examples holds complete programs, each in its own directory. Read them to see how the
// pieces fit together, and copy them to start your own.
//
//   - server: a control plane of three kinds over an embedded store, from one binary, ready for
//     kubectl
//   - embed: a resource API among the routes of a service that has its own users and listener
//   - kube: the kinds of k8s.io/api, and stand-ins for the programs that envtest starts; a module
//     of its own
//   - controllertest: a controller, and a test that lets hours of its back-off pass in milliseconds
//   - controller: a server and its controllers, by controller-runtime, in one program; a module of
//     its own
//   - cluster: the server for many processes on one etcd, and kindwright-store, which backs up,
//     restores and moves stores; a module of its own
//   - extension: a server behind the aggregator of a Kubernetes cluster
package examples
