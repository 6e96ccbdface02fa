// Command kindwright-store moves, backs up, restores and checks the stores of servers.
//
//	kindwright-store copy    --from bbolt:data/kindwright.db --to etcd:http://127.0.0.1:2379/kindwright
//	kindwright-store backup  --from https://127.0.0.1:6443 --to backup.db --token-file token --ca-file ca.crt
//	kindwright-store restore --from backup.db --to bbolt:data/kindwright.db
//	kindwright-store check   --from bbolt:data/kindwright.db
//	kindwright-store clear   --to etcd:http://127.0.0.1:2379/kindwright
//
// It ends with 0 if all is well, with 1 if something failed, and with 2 if the command line is wrong.
// docs/stores.md is the manual.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
