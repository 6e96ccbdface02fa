// Command server is a complete control plane in one binary. It serves three kinds of the group
// example.dev, namespaces and reviews, from an embedded bbolt store. It creates its data directory,
// certificates and kubeconfig, and prints a kubectl command to try.
//
//	go run ./examples/server
//
// A widget has replicas, which kubectl scales. With the kubectl line that the server prints:
//
//	echo '{"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 1}}' | kubectl create -f -
//	kubectl scale widget a --replicas=3
//	kubectl get widget a --subresource=scale
//
// examples/cluster is the same for many processes on one etcd.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/kindwright/kindwright/examples/internal/program"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(program.Run(ctx, os.Args[1:], os.Stdout, os.Stderr, &program.Files{}))
}
