package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/kindwright/kindwright/bench/driver"
	"github.com/kindwright/kindwright/bench/process"
	"github.com/kindwright/kindwright/bench/server"
	"github.com/kindwright/kindwright/bench/shape"
)

// The exit codes.
const (
	exitErrors = 1 // wrong responses, or a failed measurement
	exitUsage  = 2 // invalid command line
)

func main() {
	if server.IsChild() {
		os.Exit(server.Main())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// command runs the program and returns its exit code.
func command(ctx context.Context, args []string, out, progress io.Writer) int {
	o, err := parse(args, progress)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		_, _ = fmt.Fprintln(progress, "bench:", err) // the exit code reports it too
		return exitUsage
	}
	if o.names {
		for _, w := range driver.Workloads(o.scale) {
			_, _ = fmt.Fprintf(out, "%-20s %s\n", w.Name, w.Doc) // output errors are ignored
		}
		return 0
	}
	report, err := measure(ctx, o, progress)
	if report != nil {
		report.Command = strings.Join(append([]string{"go -C bench run ."}, quoted(args)...), " ")
		err = errors.Join(err, report.save(o, out))
	}
	if err != nil {
		_, _ = fmt.Fprintln(progress, "bench:", err) // the exit code reports it too
		return exitErrors
	}
	if n := report.errors(); n > 0 {
		_, _ = fmt.Fprintf(progress, "bench: %d errors\n", n) // the exit code reports it too
		return exitErrors
	}
	return 0
}

// options holds the parsed command line.
type options struct {
	backends []server.Backend // to start
	shapes   []shape.Shape
	run      *regexp.Regexp
	rounds   int
	names    bool
	scale    driver.Scale

	dir, json, markdown, profiles string

	peer peer
}

// peer is a server that was started elsewhere.
type peer struct {
	url, name, token string
	processes        process.Group
	tls              *tls.Config
	install          bool
}

func parse(args []string, errOut io.Writer) (*options, error) {
	o := &options{scale: driver.DefaultScale()}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(errOut)
	var (
		backend   = f.String("backend", "both", "our server's: memory, bbolt, both or none")
		bare      = f.Bool("limit", true, "measure the server that does nothing, too")
		run       = f.String("run", ".", "regular expression: the workloads")
		kind      = f.String("shape", "configmaps", "the objects: configmaps, gadgets or both")
		coll      = f.String("collection", "", "path of another kind's collection, with ${namespace} in it; wants -body and -patch")
		body      = f.String("body", "", "file with the template of its objects")
		patch     = f.String("patch", "", "file with the template of a merge patch")
		peerPIDs  = f.String("peer-pid", "", "ids of the peer's processes, separated by commas, its store's too")
		peerCA    = f.String("peer-ca", "", "file with the peer's certificate authorities, in PEM")
		insecure  = f.Bool("peer-insecure", false, "do not check the peer's certificate")
		watchers  = f.String("watchers", "1,100,1000", "numbers of watches")
		objects   = f.String("memory-objects", "10000,50000", "numbers of objects of the memory workloads")
		idle      = f.String("idle-watchers", "1000,10000", "numbers of idle watches")
		durations = &o.scale
	)
	f.BoolVar(&o.names, "list", false, "name the workloads and stop")
	f.IntVar(&o.rounds, "rounds", 3, "how often each workload is run on each server; medians are reported")
	f.StringVar(&o.dir, "dir", "", "where data files are made (default: the system's directory of temporary files)")
	f.StringVar(&o.json, "json", "", "file for every result")
	f.StringVar(&o.markdown, "markdown", "", "file for the tables, which are printed anyhow")
	f.StringVar(&o.profiles, "profile", "", "directory for profiles of our server in a further round: its CPU in each workload, its heap after those about memory")
	f.StringVar(&o.peer.url, "peer", "", "base URL of another server")
	f.StringVar(&o.peer.name, "peer-name", "peer", "what to call it")
	f.StringVar(&o.peer.token, "peer-token", "", "bearer token, or @file")
	f.BoolVar(&o.peer.install, "peer-install", false, "make the custom resource definition of the shape there")
	f.DurationVar(&durations.Time, "time", durations.Time, "how long each loop runs")
	f.DurationVar(&durations.ChurnTime, "churn", durations.ChurnTime, "how long memory/churn runs")
	f.DurationVar(&durations.Settle, "settle", durations.Settle, "how long a server may tidy up before its memory is read")
	f.DurationVar(&durations.Timeout, "patience", durations.Timeout,
		"how long to wait without an event before missing events count as missed")
	f.Float64Var(&durations.ChurnRate, "churn-rate", durations.ChurnRate, "updates per second of memory/churn")
	f.IntVar(&durations.Operations, "operations", durations.Operations, "most operations of a loop")
	f.IntVar(&durations.ListOperations, "list-operations", durations.ListOperations, "most lists of a loop")
	f.IntVar(&durations.Objects, "objects", durations.Objects, "objects in the list, a multiple of 100")
	f.IntVar(&durations.Scratch, "scratch", durations.Scratch, "objects that are got and updated, at least 64")
	f.IntVar(&durations.Deliveries, "deliveries", durations.Deliveries, "about how many events a watch workload delivers")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	var err error
	if o.run, err = regexp.Compile(*run); err != nil {
		return nil, fmt.Errorf("-run: %w", err)
	}
	if o.backends, err = backends(*backend, *bare); err != nil {
		return nil, err
	}
	if o.shapes, err = shapes(*kind, *coll, *body, *patch); err != nil {
		return nil, err
	}
	for _, list := range []struct {
		flag, text string
		to         *[]int
	}{
		{"watchers", *watchers, &o.scale.Watchers},
		{"memory-objects", *objects, &o.scale.MemoryObjects},
		{"idle-watchers", *idle, &o.scale.IdleWatchers},
	} {
		if *list.to, err = numbers(list.text); err != nil {
			return nil, fmt.Errorf("-%s: %w", list.flag, err)
		}
	}
	if err := o.peer.complete(*peerPIDs, *peerCA, *insecure); err != nil {
		return nil, err
	}
	return o, o.check()
}

func (o *options) check() error {
	switch s := o.scale; {
	case o.rounds < 1:
		return errors.New("-rounds: want at least one")
	case s.Objects < 100 || s.Objects%100 != 0:
		return errors.New("-objects: want a multiple of 100")
	case s.Scratch < 64:
		return errors.New("-scratch: want at least 64")
	case len(o.backends) == 0 && o.peer.url == "":
		return errors.New("no server to measure")
	}
	return nil
}

func backends(name string, bare bool) ([]server.Backend, error) {
	var out []server.Backend
	switch name {
	case "both":
		out = []server.Backend{server.Bolt, server.Memory}
	case "memory":
		out = []server.Backend{server.Memory}
	case "bbolt":
		out = []server.Backend{server.Bolt}
	case "none":
	default:
		return nil, fmt.Errorf("-backend: unknown backend %q", name)
	}
	if bare {
		out = append(out, server.Limit)
	}
	return out, nil
}

// shapes returns the shapes of the objects to measure with. Our server only serves those of package
// shape.
func shapes(kind, coll, body, patch string) ([]shape.Shape, error) {
	if coll != "" {
		objects, err := os.ReadFile(body)
		if err != nil {
			return nil, fmt.Errorf("-body: %w", err)
		}
		change, err := os.ReadFile(patch)
		if err != nil {
			return nil, fmt.Errorf("-patch: %w", err)
		}
		s, err := shape.Make(coll[strings.LastIndexByte(coll, '/')+1:], coll, string(objects), string(change))
		return []shape.Shape{s}, err
	}
	if kind == "both" {
		return []shape.Shape{shape.ConfigMap(), shape.Gadget()}, nil
	}
	s, err := shape.Named(kind)
	return []shape.Shape{s}, err
}

func numbers(text string) ([]int, error) {
	var out []int
	for field := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a positive number", field)
		}
		out = append(out, n)
	}
	return out, nil
}

// complete reads the files named by flags.
func (p *peer) complete(pids, ca string, insecure bool) error {
	var err error
	if p.processes, err = process.ParseGroup(pids); err != nil {
		return fmt.Errorf("-peer-pid: %w", err)
	}
	if file, ok := strings.CutPrefix(p.token, "@"); ok {
		data, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("-peer-token: %w", err)
		}
		p.token = strings.TrimSpace(string(data))
	}
	p.tls = &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: insecure}
	if ca == "" {
		return nil
	}
	data, err := os.ReadFile(ca)
	if err != nil {
		return fmt.Errorf("-peer-ca: %w", err)
	}
	p.tls.RootCAs = x509.NewCertPool()
	if !p.tls.RootCAs.AppendCertsFromPEM(data) {
		return fmt.Errorf("-peer-ca: %s contains no PEM certificate", ca)
	}
	return nil
}

// quoted returns arguments in shell syntax, without tokens.
func quoted(args []string) []string {
	plain := regexp.MustCompile(`^[A-Za-z0-9_./:,=@%+-]+$`)
	out := make([]string, len(args))
	secret := false
	for i, a := range args {
		name, _, inline := strings.Cut(strings.TrimLeft(a, "-"), "=")
		switch {
		case secret:
			a = "TOKEN"
		case name == "peer-token" && inline:
			a = "-peer-token=TOKEN"
		case !plain.MatchString(a):
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		secret = name == "peer-token" && !inline
		out[i] = a
	}
	return out
}
