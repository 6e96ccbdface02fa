// Command etcd stands in for etcd where a test starts one beside a kube-apiserver. It stores
// nothing. It answers /health, and tells the kube-apiserver stand-in where to keep its objects.
//
// It accepts the flags that tests pass to etcd. The flags --data-dir, --listen-client-urls and
// --listen-peer-urls have their usual meaning, but it does not listen for peers.
package main
