// The measure command starts kube-apiserver and etcd several times, in the same way as tests with
// envtest, and prints the cost: the time until the server is ready, and the memory of both
// programs. It reads /proc, so it needs Linux.
//
//	measure [-n times] [-idle duration] [-settle duration] name=directory…
//
// Each directory contains the two programs, like KUBEBUILDER_ASSETS. The table on standard output
// has a row for each name, with the medians.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "measure: %v\n", err) // the exit code reports it too
		os.Exit(1)
	}
}

// A result is the cost of one run.
type result struct {
	ready     time.Duration // from the start of kube-apiserver to the first good answer of /readyz
	both      time.Duration // the same from the start of etcd
	idle      int64         // bytes of both programs, before the first request
	documents time.Duration // to read all of discovery and of OpenAPI
	read      int64         // bytes of both, right after that
	settled   int64         // bytes of both, after a while without requests
}

// command measures the programs on the command line.
func command(ctx context.Context, args []string, out, progress io.Writer) error {
	flags := flag.NewFlagSet("measure", flag.ContinueOnError)
	flags.SetOutput(progress)
	times := flags.Int("n", 5, "how often to start each")
	idle := flags.Duration("idle", 2*time.Second, "how long to wait once the server is ready")
	settle := flags.Duration("settle", 10*time.Second, "how long to wait after documents were read")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 || *times < 1 {
		return errors.New("usage: measure [-n times] [-idle duration] [-settle duration] name=directory…")
	}
	rows := []string{
		"| | ready | with etcd | RSS " + idle.String() + " later | all documents | RSS then | RSS " + settle.String() + " later |",
		"|---|---|---|---|---|---|---|",
	}
	for _, arg := range flags.Args() {
		name, dir, named := strings.Cut(arg, "=")
		if !named {
			return fmt.Errorf("%q: want name=directory", arg)
		}
		var all []result
		for i := range *times {
			r, err := run(ctx, dir, *idle, *settle)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			_, _ = fmt.Fprintf(progress, "%s %d/%d: %s\n", name, i+1, *times, row(r)) // for people only
			all = append(all, r)
		}
		rows = append(rows, "| "+name+" "+row(median(all)))
	}
	_, err := fmt.Fprintln(out, strings.Join(rows, "\n"))
	return err
}

func row(r result) string {
	ms := func(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }
	mib := func(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }
	return "| " + strings.Join([]string{ms(r.ready), ms(r.both), mib(r.idle), ms(r.documents), mib(r.read), mib(r.settled)}, " | ") + " |"
}

// median takes the median of each number separately.
func median(all []result) result {
	return result{
		ready:     middle(all, func(r result) time.Duration { return r.ready }),
		both:      middle(all, func(r result) time.Duration { return r.both }),
		idle:      middle(all, func(r result) int64 { return r.idle }),
		documents: middle(all, func(r result) time.Duration { return r.documents }),
		read:      middle(all, func(r result) int64 { return r.read }),
		settled:   middle(all, func(r result) int64 { return r.settled }),
	}
}

func middle[N ~int64](all []result, of func(result) N) N {
	var numbers []N
	for _, r := range all {
		numbers = append(numbers, of(r))
	}
	slices.Sort(numbers)
	return numbers[len(numbers)/2]
}
