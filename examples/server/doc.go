// Command server is a complete control plane in one binary: three kinds of the group example.dev, namespaces and reviews,
// over an embedded bbolt store. It makes what it needs (data directory, certificates, kubeconfig) and prints the kubectl
// command to try.
//
//	go run ./examples/server
//
// A widget has replicas, which kubectl scales:
//
//	kubectl scale widget a --replicas=3
//	kubectl get widget a --subresource=scale
//
// The kinds are in kinds.go, the flags in flags.go, what is written to the data directory in directory.go.
package main
