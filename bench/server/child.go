package server

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authn/token"
	"github.com/kindwright/kindwright/bench/limit"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/memory"
)

// Backend is the store or server of a child.
type Backend string

// The backends.
const (
	Memory Backend = "memory" // ours, in memory
	Bolt   Backend = "bbolt"  // ours, in a file; each write is synced before its acknowledgement
	Limit  Backend = "limit"  // the server of package limit
)

// childVariable is set in the environment of a child, which reads its order from standard input.
const childVariable = "KINDWRIGHT_BENCH_CHILD"

// order tells a child what to serve.
type order struct {
	Backend   Backend
	Directory string // for the data file
	Cert, Key []byte // PEM, of the TLS server
	Token     string
	Faults    limit.Faults
}

// listening is the response of a child.
type listening struct {
	Address string // of the API
	Control string // of profiles and heap sizes
}

// IsChild reports whether this process was started by Start.
func IsChild() bool { return os.Getenv(childVariable) != "" }

// Main runs a child: it serves until its standard input ends and returns the exit code.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := child(ctx, os.Stdin, os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "bench server:", err) // the exit code reports it too
		return 1
	}
	return 0
}

// child reads an order, serves, reports its addresses, and ends with in or ctx.
func child(ctx context.Context, in io.Reader, out io.Writer) error {
	var o order
	orders := json.NewDecoder(in)
	if err := orders.Decode(&o); err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, in) // however the parent ended
		stop()
	}()
	pair, err := tls.X509KeyPair(o.Cert, o.Key)
	if err != nil {
		return err
	}
	control, err := listen(ctx)
	if err != nil {
		return err
	}
	controls := &http.Server{Handler: new(recorder).handler(), ReadHeaderTimeout: time.Minute}
	var serving sync.WaitGroup
	serving.Go(func() { _ = controls.Serve(control) }) // ends with Close and its usual error
	defer func() {
		_ = controls.Close() // only Child uses it
		serving.Wait()
	}()
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	announce := func(address net.Addr) error {
		return json.NewEncoder(out).Encode(listening{Address: address.String(), Control: control.Addr().String()})
	}
	if o.Backend == Limit {
		return serveLimit(ctx, limit.New(o.Faults), config, announce)
	}
	return serveOurs(ctx, o, config, announce)
}

func listen(ctx context.Context) (net.Listener, error) {
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", "127.0.0.1:0")
}

// serveLimit serves with those HTTP/2 settings of our server that affect speed.
func serveLimit(ctx context.Context, h http.Handler, config *tls.Config, announce func(net.Addr) error) error {
	listener, err := listen(ctx)
	if err != nil {
		return err
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	s := &http.Server{
		Handler: h, TLSConfig: config, Protocols: &protocols, ReadHeaderTimeout: time.Minute,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 250},
	}
	served := make(chan error, 1)
	go func() { served <- s.ServeTLS(listener, "", "") }()
	if err = announce(listener.Addr()); err == nil {
		select {
		case err := <-served:
			return err
		case <-ctx.Done():
		}
	}
	_ = s.Close() // watches do not end by themselves
	if ended := <-served; err == nil && !errors.Is(ended, http.ErrServerClosed) {
		err = ended
	}
	return err
}

func serveOurs(ctx context.Context, o order, config *tls.Config, announce func(net.Addr) error) error {
	backend, err := open(o)
	if err != nil {
		return err
	}
	s, err := New(backend, o.Token)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var unannounced error // written before Run returns
	err = s.Run(ctx, kindwright.Listen("127.0.0.1:0"), kindwright.TLS{Config: config}, kindwright.FreeMemoryWhenIdle(), kindwright.OnListening(func(a net.Addr) {
		if unannounced = announce(a); unannounced != nil {
			stop()
		}
	}))
	if closed := backend.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = unannounced
	}
	return err
}

func open(o order) (storage.Backend, error) {
	switch o.Backend {
	case Memory:
		return memory.New(), nil
	case Bolt:
		return bbolt.Open(filepath.Join(o.Directory, "bench.db"))
	default:
		return nil, fmt.Errorf("unknown backend %q, want %s, %s or %s", o.Backend, Memory, Bolt, Limit)
	}
}

// New returns our server with the kinds of package shape. The token allows everything.
func New(backend storage.Backend, bearer string) (*kindwright.Server, error) {
	tokens, err := token.Read(strings.NewReader(bearer + `,bench,bench-uid,"system:masters"` + "\n"))
	if err != nil {
		return nil, err
	}
	return kindwright.New(backend, kindwright.Serve(definitions()...), kindwright.Authenticate(tokens))
}
