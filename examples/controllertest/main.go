// Command controllertest is a controller and its test. The controller makes a courier deliver
// parcels, and retries for hours when that fails. The test, controller_test.go, runs it against a
// real API server and lets those hours pass at once.
//
//	go test ./examples/controllertest
//	go run ./examples/controllertest
//
// The program shows the controller at work, with a server in memory and delays of seconds.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage/memory"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "controllertest:", err)
		os.Exit(1)
	}
}

// run delivers one parcel and reports the progress.
func run(ctx context.Context, out io.Writer) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	store := memory.New()
	defer func() { err = errors.Join(err, store.Close()) }()
	srv, err := kindwright.New(store,
		kindwright.Serve(Deliveries, kinds.ControlPlane()),
		kindwright.Authenticate(authn.Func(func(*http.Request) (authn.User, bool, error) {
			return authn.User{Name: "demo", Groups: []string{authn.GroupMasters}}, true, nil // only this program can reach the server
		})),
	)
	if err != nil {
		return err
	}
	if err := srv.Start(ctx); err != nil {
		return err
	}
	transport := client.InProcess(srv)
	deliveries := client.For(&http.Client{Transport: transport}, Deliveries)
	controller := &Controller{Deliveries: deliveries, Courier: &lazy{failures: 2}, First: time.Second, Most: time.Minute}
	var running sync.WaitGroup
	running.Go(func() { _ = controller.Run(ctx) }) // it ends with ctx; the error is always the context's
	defer func() { stop(); running.Wait(); srv.Wait(); transport.Close() }()

	d, err := deliveries.Create(ctx, &Delivery{ObjectMeta: meta.Named("default", "parcel"), Spec: DeliverySpec{To: "the harbour"}})
	if err != nil {
		return err
	}
	for event, err := range deliveries.Watch(ctx, client.In(d.Namespace), client.After(d.ResourceVersion)) {
		switch {
		case err != nil:
			return err
		case event.Type != meta.Modified || event.Object.Status.Attempts == 0:
			continue
		}
		s := event.Object.Status
		outcome := s.Problem
		if s.Phase == delivered {
			outcome = "delivered"
		}
		if _, err := fmt.Fprintf(out, "attempt %d: %s\n", s.Attempts, outcome); err != nil || s.Phase == delivered {
			return err
		}
	}
	return nil
}

// lazy is a courier that fails a few times.
type lazy struct{ failures int }

// Deliver fails a few times. The controller calls it from one goroutine.
func (l *lazy) Deliver(context.Context, meta.UID, string) error {
	if l.failures == 0 {
		return nil
	}
	l.failures--
	return errors.New("the van is full")
}

// Cancel does nothing.
func (l *lazy) Cancel(context.Context, meta.UID) error { return nil }
