// Package standin tests the programs of examples/kube in the places of kube-apiserver and etcd.
// envtest starts them, and Kubernetes' own clients use them.
package standin
