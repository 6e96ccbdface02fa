package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/kindwright/kindwright/internal/files"
	"github.com/kindwright/kindwright/internal/json"
)

// The exit codes of the program.
const (
	exitFailure = 1 // it could not start, or could not go on
	exitUsage   = 2 // the command line is wrong
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// options are the command line.
type options struct {
	dataDir string
	listen  []string
	version bool
}

// parse reads the command line. It accepts flags that mean something only to a real etcd.
func parse(args []string) (*options, *pflag.FlagSet, error) {
	o := &options{}
	f := pflag.NewFlagSet("etcd", pflag.ContinueOnError)
	f.Usage = func() {}
	f.StringVar(&o.dataDir, "data-dir", "default.etcd", "the directory of the data")
	f.StringSliceVar(&o.listen, "listen-client-urls", []string{"http://localhost:2379"}, "the URLs to listen on for clients")
	f.BoolVar(&o.version, "version", false, "print the version and exit")
	for _, name := range []string{"advertise-client-urls", "initial-advertise-peer-urls", "initial-cluster", "initial-cluster-state", "initial-cluster-token", "listen-metrics-urls", "listen-peer-urls", "log-level", "log-outputs", "logger", "name", "wal-dir"} {
		f.String(name, "", "accepted, without effect")
	}
	for _, name := range []string{"auto-compaction-mode", "auto-compaction-retention", "heartbeat-interval", "election-timeout", "max-request-bytes", "max-txn-ops", "quota-backend-bytes", "snapshot-count"} {
		f.String(name, "", "accepted, without effect")
	}
	for _, name := range []string{"force-new-cluster", "pre-vote", "unsafe-no-fsync"} {
		f.Bool(name, false, "accepted, without effect")
	}
	if err := f.Parse(args); err != nil {
		return nil, f, err
	}
	if f.NArg() > 0 {
		return nil, f, fmt.Errorf("unexpected argument %q: only flags are accepted", f.Arg(0))
	}
	if o.dataDir == "" {
		return nil, f, errors.New("--data-dir must not be empty")
	}
	return o, f, nil
}

// command runs the program until ctx ends and returns the exit code.
func command(ctx context.Context, args []string, out, errOut io.Writer) int {
	o, flags, err := parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		_, _ = fmt.Fprintf(out, "etcd stands in for etcd beside a kube-apiserver that does the same.\n\nUsage:\n  etcd [flags]\n\nFlags:\n%s", flags.FlagUsages()) // nobody is there to be told
		return 0
	case err == nil && o.version:
		_, _ = fmt.Fprintln(out, "etcd Version: 3.6.0+kindwright")
		return 0
	case err != nil:
		_, _ = fmt.Fprintf(errOut, "etcd: %v\n", err) // the exit code says it too
		return exitUsage
	}
	if err := o.serve(ctx, errOut); err != nil {
		_, _ = fmt.Fprintf(errOut, "etcd: %v\n", err) // the exit code says it too
		return exitFailure
	}
	return 0
}

// serve answers until ctx ends.
func (o *options) serve(ctx context.Context, errOut io.Writer) (err error) {
	dir, err := filepath.Abs(o.dataDir)
	if err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	if err := files.Directory(dir); err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	listeners, err := o.listeners(ctx)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler(dir), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, len(listeners))
	for _, l := range listeners {
		_, _ = fmt.Fprintf(errOut, "etcd: standing in on http://%s, data in %s\n", l.Addr(), dir) // for people only
		go func() { failed <- server.Serve(l) }()
	}
	ended := 0
	select {
	case err = <-failed:
		ended++
	case <-ctx.Done():
	}
	err = errors.Join(err, server.Close())
	for ; ended < len(listeners); ended++ {
		if e := <-failed; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// listeners opens every URL of --listen-client-urls.
func (o *options) listeners(ctx context.Context) (out []net.Listener, err error) {
	defer func() {
		if err != nil {
			for _, l := range out {
				_ = l.Close() // there are no connections yet
			}
		}
	}()
	for _, text := range o.listen {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Scheme != "http" {
			return out, fmt.Errorf("--listen-client-urls %q: must be a URL such as http://127.0.0.1:2379", text)
		}
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", u.Host)
		if err != nil {
			return out, fmt.Errorf("--listen-client-urls: %w", err)
		}
		out = append(out, l)
	}
	return out, nil
}

// handler answers the requests of programs that start an etcd, and those of the kube-apiserver
// stand-in.
func handler(dir string) http.Handler {
	mux := http.NewServeMux()
	answer := func(path string, body any) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			text, err := json.Marshal(body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(text) // a client that has gone needs no answer
		})
	}
	answer("/health", map[string]any{"health": "true", "reason": ""})
	answer("/version", map[string]any{"etcdserver": "3.6.0+kindwright", "etcdcluster": "3.6.0"})
	answer("/kindwright", map[string]any{"dataDir": dir})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "this is a stand-in: it has no API of etcd, "+strings.ToUpper(r.Method)+" finds nothing here",
			http.StatusNotImplemented)
	})
	return mux
}
