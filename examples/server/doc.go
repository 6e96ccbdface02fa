// Command server is a complete control plane in one binary. It serves three kinds of the group
// example.dev, namespaces and reviews, from an embedded bbolt store. It creates its data directory,
// certificates and kubeconfig, and prints a kubectl command to try.
//
//	go run ./examples/server
//
// A widget has replicas, which kubectl scales:
//
//	kubectl scale widget a --replicas=3
//	kubectl get widget a --subresource=scale
//
// The kinds are in kinds.go, the flags in flags.go, and the files of the data directory in
// directory.go.
package main
