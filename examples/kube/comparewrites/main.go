// The comparewrites command compares what the kinds of package kube make of writes with what
// Kubernetes' own code makes of them.
//
//	comparewrites -oracle program -api directory [-kinds regexp] [-n writes] [-seed number] [-messages] [-known file]
//
// The objects of objects.yaml are changed at random and then created, updated, or updated in their
// status. A server of package kube answers each write in a dry run, without admission plugins. The
// oracle, a program that make kube-validation builds, says what Kubernetes answers. Compared are the
// causes of a failure, and otherwise the object and the warnings.
//
// The values that are tried and the fields that are filled are those of Kubernetes' version of
// k8s.io/api, whose source is given. A time that is null there may be missing here.
//
// The table on standard output has a line for each kind of difference: how many writes have it, the
// kind of object, the operation, what differs. An example follows. The exit code is 1 when a
// difference is not among those that are known.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"
)

// objects are what is changed and written.
//
//go:embed objects.yaml
var objects []byte

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "comparewrites: %v\n", err) // the exit code reports it too
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	oracle, api, known, kinds string

	writes   int
	seed     uint64
	messages bool
}

// command compares writes as the command line says.
func command(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	var o options
	flags := flag.NewFlagSet("comparewrites", flag.ContinueOnError)
	flags.SetOutput(progress)
	flags.StringVar(&o.oracle, "oracle", "", "the program that answers as Kubernetes does")
	flags.StringVar(&o.api, "api", "", "the source of Kubernetes' version of k8s.io/api")
	flags.StringVar(&o.known, "known", "", "a file of differences that are known (default none)")
	flags.StringVar(&o.kinds, "kinds", "", "a regular expression: the kinds to compare (default all)")
	flags.IntVar(&o.writes, "n", 20000, "how many writes there are")
	flags.Uint64Var(&o.seed, "seed", 1, "chooses the changes")
	flags.BoolVar(&o.messages, "messages", false, "compare the sentences of causes, too")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.oracle == "" || o.api == "" || flags.NArg() > 0 {
		return errors.New("usage: comparewrites -oracle program -api directory [flags]")
	}
	p, err := startProcess(ctx, o.oracle, progress)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	return o.compare(ctx, p, out)
}

// compare compares all writes, prints what differs, and returns an error if that is not known.
func (o *options) compare(ctx context.Context, there oracle, out io.Writer) error {
	kinds, err := regexp.Compile(o.kinds)
	if err != nil {
		return fmt.Errorf("-kinds: %w", err)
	}
	known, err := readKnown(o.known)
	if err != nil {
		return fmt.Errorf("-known: %w", err)
	}
	api, err := readSource(os.DirFS(o.api))
	if err != nil {
		return fmt.Errorf("-api: %w", err)
	}
	here, err := startServer(ctx)
	if err != nil {
		return err
	}
	defer here.stop()
	subjects, err := here.store(ctx, objects, kinds)
	if err != nil {
		return fmt.Errorf("objects.yaml: %w", err)
	}
	c := &comparison{here: here, there: there, next: newGenerator(api, o.seed), messages: o.messages, report: newReport(known)}
	if err := c.run(ctx, subjects, o.writes); err != nil {
		return err
	}
	if err := c.report.print(out); err != nil {
		return err
	}
	if n := c.report.unknown(); n > 0 {
		return fmt.Errorf("%d kinds of differences are not known", n)
	}
	return nil
}
