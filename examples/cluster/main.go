// Command cluster is the server of examples/server for many processes: it keeps objects in etcd, and
// any number of them serve one API beside each other.
//
//	go -C examples/cluster run . --etcd-servers=http://127.0.0.1:2379 --listen=127.0.0.1:6443 --data-dir=a
//	go -C examples/cluster run . --etcd-servers=http://127.0.0.1:2379 --listen=127.0.0.1:6444 --data-dir=b
//
// Each has certificates and a kubeconfig of its own in its data directory, so that none has to know
// the keys of another. A client that is to be known everywhere has a token or certificate that all of
// them accept by flags.
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
	os.Exit(program.Run(ctx, os.Args[1:], os.Stdout, os.Stderr, &cluster{}))
}
