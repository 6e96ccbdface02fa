// Package standin holds tests of the programs of examples/kube in the places of kube-apiserver and etcd: envtest starts them,
// and Kubernetes' own clients work with what they serve.
package standin
