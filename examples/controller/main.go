// Command controller is a server and its controllers in one program, with controller-runtime: a
// manager that calls the server without a socket, leader election, and an end in order.
// docs/controllers.md explains it.
//
//	go run .          # in this directory
//	go test .
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn/token"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
)

func main() {
	var p program
	file := flag.String("file", "sites.db", "where the objects are stored")
	flag.StringVar(&p.address, "address", "127.0.0.1:6443", "where to serve")
	flag.StringVar(&p.token, "token", "secret", "the token of the administrator")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	db, err := bbolt.Open(*file)
	if err == nil {
		err = errors.Join(p.run(ctx, db), db.Close()) // the store outlives the server
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "controller:", err)
		os.Exit(1)
	}
}

// program is a server with a manager.
type program struct {
	address string
	token   string                           // of the administrator
	started func(*kindwright.Server, string) // told of the server and its address; for tests
}

// run serves until ctx ends. Then the manager ends, which releases its lease and so needs the
// server, and then the server.
func (p program) run(ctx context.Context, db storage.Backend) error {
	log := logr.FromSlogHandler(slog.Default().Handler())
	own := rand.Text() // the manager's token, for this run
	users, err := token.Read(strings.NewReader(fmt.Sprintf("%s,admin,1,system:masters\n%s,manager,2,system:masters\n", p.token, own)))
	if err != nil {
		return err
	}
	srv, err := kindwright.New(db,
		kindwright.Serve(sites, kinds.ControlPlane(), kinds.ConfigMaps()),
		kindwright.Authenticate(users), kindwright.LogTo(log))
	if err != nil {
		return err
	}
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	managing, stopManaging := context.WithCancel(ctx)
	defer stopManaging()
	listening, served := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		served <- srv.Run(serving, kindwright.Listen(p.address), kindwright.OnListening(func(a net.Addr) { listening <- a }))
		stopManaging() // a manager without a server has nothing to do
	}()
	select {
	case address := <-listening:
		if p.started != nil {
			p.started(srv, address.String())
		}
	case err := <-served:
		return err
	}
	err = manage(managing, srv, own, log)
	stopServing()
	return errors.Join(err, <-served)
}

// manage runs the controllers until ctx ends.
func manage(ctx context.Context, srv *kindwright.Server, token string, log logr.Logger) error {
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	transport := client.InProcess(srv)
	defer transport.Close()
	config := &rest.Config{Host: client.InProcessURL, Transport: transport, BearerToken: token, UserAgent: "site-controller", QPS: -1}
	m, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Logger: log,
		Metrics:        metricsserver.Options{BindAddress: "0"},
		LeaderElection: true, LeaderElectionID: "sites.web.example.com", LeaderElectionNamespace: "kube-system",
		LeaderElectionReleaseOnCancel: true, // nothing of this program may run after Start has returned
	})
	if err != nil {
		return err
	}
	if err := setUp(m); err != nil {
		return err
	}
	return m.Start(ctx)
}
