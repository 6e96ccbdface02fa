package extension

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright"
	authn "github.com/kindwright/kindwright/authn/delegated"
	"github.com/kindwright/kindwright/storage"
)

// Program is an extension server as a program with flags. In a cluster it needs none.
type Program struct {
	Config Config // which flags change

	// Open opens the store; dir is the data directory, which exists.
	Open func(dir string) (storage.Backend, error)

	Options []kindwright.Option    // further ones
	Run     []kindwright.RunOption // further ones
}

// Main runs the program until it gets a signal to end, and exits the process.
func (p Program) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := p.Do(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", p.Config.Name, err)
		os.Exit(1)
	}
}

// flags are the flags of a program.
type flags struct {
	kubeconfig, data  string
	manifests, remove bool
	deployment        Deployment
	replicas          int
}

// Do runs the program with arguments until ctx ends. It logs to what slog.Default returns, unless the
// Config has a logger.
func (p Program) Do(ctx context.Context, args []string, out io.Writer) (err error) {
	if p.Config.Log.GetSink() == nil {
		p.Config.Log = logr.FromSlogHandler(slog.Default().Handler())
	}
	f, err := p.parse(args, out)
	switch {
	case err != nil:
		return err
	case f.manifests:
		return WriteManifests(out, p.Config, f.deployment)
	}
	e, err := New(p.Config)
	if err != nil {
		return err
	}
	if f.remove {
		return e.Remove(ctx)
	}
	if err := os.MkdirAll(f.data, 0o700); err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	store, err := p.Open(f.data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	server, err := kindwright.New(store, append(e.Options(), p.Options...)...)
	if err != nil {
		return err
	}
	return e.Run(ctx, server, p.Run...)
}

func (p *Program) parse(args []string, out io.Writer) (*flags, error) {
	f, c := &flags{}, &p.Config
	set := flag.NewFlagSet(c.Name, flag.ContinueOnError)
	set.SetOutput(out)
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "how to reach the host; default: the cluster that the process runs in")
	set.StringVar(&c.Namespace, "namespace", c.Namespace, "of the Service and the secret; default: that of the pod")
	set.StringVar(&c.Listen, "listen", c.Listen, "the address to listen on; default "+defaultListen)
	set.StringVar(&c.Advertise, "advertise", c.Advertise, "outside of a cluster: the host and port by which the host reaches the server")
	set.StringVar(&f.data, "data-dir", dataDirectory, "where the store is")
	set.BoolVar(&f.manifests, "manifests", false, "print the manifests for a cluster, and end")
	set.StringVar(&f.deployment.Image, "image", c.Name, "with --manifests: the image of the container")
	set.IntVar(&f.replicas, "replicas", 1, "with --manifests: how many there are; several need a store that they share")
	set.BoolVar(&f.remove, "remove", false, "take back what the server has written into the host, and end")
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	if set.NArg() > 0 {
		return nil, fmt.Errorf("unknown argument %q", set.Arg(0))
	}
	f.deployment.Replicas = int32(min(f.replicas, 1<<16)) //nolint:gosec // bounded
	if f.kubeconfig != "" {
		host, err := authn.ReadConnection(f.kubeconfig, func(err error) {
			p.Config.Log.Error(err, "a file of --kubeconfig cannot be read; its last good state counts")
		})
		if err != nil {
			return nil, fmt.Errorf("--kubeconfig: %w", err)
		}
		c.Host = host
	}
	return f, nil
}
