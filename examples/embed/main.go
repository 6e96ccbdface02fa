// Command embed is a service with its own routes, users and listener that also offers a resource
// API, below /shop/. The API is an ordinary handler. Everything around it stays the host's.
//
//	go run ./examples/embed
//	curl localhost:8080/hello
//	curl -u ann:apple localhost:8080/shop/apis/shop.example.com/v1/namespaces/red/orders
//
// Middleware in front of the API must let it flush, or watches are answered 500: a wrapper of the
// http.ResponseWriter needs a method Unwrap, and http.TimeoutHandler cannot be in front.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/storage/memory"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "embed:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("embed", flag.ContinueOnError)
	address := flags.String("listen", "127.0.0.1:8080", "the address to listen on; port 0 picks one")
	flags.SetOutput(out)
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	store := memory.New()
	defer func() { err = errors.Join(err, store.Close()) }()
	api, err := newAPI(store)
	if err != nil {
		return err
	}
	if err := api.Start(ctx); err != nil {
		return err
	}
	defer func() { stop(); api.Wait() }()
	inProcess := client.InProcess(own(api))
	defer inProcess.Close()

	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", *address)
	if err != nil {
		return err
	}
	// The host's timeouts are for its own answers. The API lifts them from its streams, so they do
	// not cut watches.
	server := &http.Server{Handler: routes(api, inProcess), ReadHeaderTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	_, err = fmt.Fprintf(out, "Serving on http://%s. Try:\n\n  curl -u ann:apple http://%[1]s%s/apis/shop.example.com/v1/namespaces/red/orders\n\n", listener.Addr(), prefix)
	if err != nil {
		stop() // without an address the server is useless
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done(): // the watches end with it, in order
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err = errors.Join(err, server.Shutdown(grace))
	if ended := <-failed; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}
