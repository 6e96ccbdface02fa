// Command etcd stands in for the program of that name where a test starts one beside a kube-apiserver. It stores nothing: it
// answers /health, and tells the kube-apiserver that stands in beside it the directory in which that keeps its objects.
//
// The flags that tests give to etcd are accepted; --data-dir, --listen-client-urls and --listen-peer-urls mean what they
// always mean, though nobody listens for peers.
package main
