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
	"slices"
	"syscall"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright"
	authn "github.com/kindwright/kindwright/authn/delegated"
	"github.com/kindwright/kindwright/storage"
)

// Program is an extension server as a program with flags. In a cluster it needs none.
type Program struct {
	Config Config // which flags change

	// Open opens the store. dir is the data directory, which exists. It is "" for replicas that share a
	// store: their pods have no volume.
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
	if errors.Is(err, errNoHost) {
		return fmt.Errorf("%w; outside of a cluster, give --kubeconfig", err)
	}
	if err != nil {
		return err
	}
	if f.remove {
		return e.Remove(ctx)
	}
	if f.data != "" {
		if err := os.MkdirAll(f.data, 0o700); err != nil {
			return fmt.Errorf("--data-dir: %w", err)
		}
	}
	if p.Open == nil {
		return errors.New("extension: Program.Open: is required")
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
	set.BoolVar(&c.TolerateLookupFailure, tolerateFlag, c.TolerateLookupFailure, "start also if it cannot be looked up in the host whom to trust")
	set.StringVar(&f.data, dataFlag, dataDirectory, "where the store is; empty if it is not in a directory")
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
	if err := f.agree(set); err != nil {
		return nil, err
	}
	f.deployment.Replicas = int32(f.replicas) //nolint:gosec // agree bounds it
	if f.replicas > 1 {
		f.deployment.Args = append(f.deployment.Args, "--"+dataFlag+"=")
	}
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

const (
	dataFlag     = "data-dir"
	tolerateFlag = "authentication-tolerate-lookup-failure" // as Kubernetes calls it
	maxReplicas  = 1 << 10
)

// agree refuses flags that would have no effect beside others.
func (f *flags) agree(set *flag.FlagSet) (err error) {
	running := []string{"kubeconfig", "listen", "advertise", tolerateFlag, dataFlag, "remove"}
	set.Visit(func(given *flag.Flag) {
		switch name := given.Name; {
		case err != nil:
		case f.manifests && slices.Contains(running, name):
			err = fmt.Errorf("--%s: is for a server that runs; leave it out with --manifests", name)
		case !f.manifests && (name == "image" || name == "replicas"):
			err = fmt.Errorf("--%s: is for --manifests; give that, too", name)
		}
	})
	if err == nil && (f.replicas < 1 || f.replicas > maxReplicas) {
		err = fmt.Errorf("--replicas: %d must be from 1 to %d", f.replicas, maxReplicas)
	}
	return err
}
