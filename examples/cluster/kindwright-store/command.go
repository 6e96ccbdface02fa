package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/copy"
)

const (
	exitFailure = 1
	exitUsage   = 2
)

// flags is the command line.
type flags struct {
	command  string
	from, to string

	leaveOut bool
	prepare  bool
	follow   bool
	above    uint64

	etcd   etcdFlags
	server serverFlags
}

// commands are the commands, with what each is for.
var commands = []struct {
	name, does string
	run        func(context.Context, *flags, io.Writer) error
	ends       string // which of --from and --to it needs
}{
	{"copy", "copies a store into an empty one; the servers of both are stopped, or see --prepare and --follow", copyStore, "from to"},
	{"backup", "writes a backup of a store, or of a running server, to a new file", backUp, "from to"},
	{"restore", "makes a store of a backup, or of a copied file", restore, "from to"},
	{"check", "reads all of a store and says what cannot be read; it changes nothing", check, "from"},
	{"clear", "empties the target of a copy that is not to be finished", clearTarget, "to"},
}

// usageError is a mistake in the command line.
type usageError struct{ error }

// run is the program. It returns the exit code.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	err := dispatch(ctx, args, out, errOut)
	var usage usageError
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &usage):
		_, _ = fmt.Fprintf(errOut, "kindwright-store: %v\n", err)
		return exitUsage
	}
	_, _ = fmt.Fprintf(errOut, "kindwright-store: %v\n", err)
	return exitFailure
}

func dispatch(ctx context.Context, args []string, out, errOut io.Writer) error {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		_, _ = fmt.Fprintln(errOut, overview())
		if len(args) > 0 && strings.Trim(args[0], "-") == "help" {
			return nil
		}
		return usageError{errors.New("give a command first")}
	}
	for _, c := range commands {
		if c.name != args[0] {
			continue
		}
		f, err := parse(c.name, c.ends, args[1:], errOut)
		if err != nil {
			return err
		}
		return c.run(ctx, f, out)
	}
	_, _ = fmt.Fprintln(errOut, overview())
	return usageError{fmt.Errorf("there is no command %q", args[0])}
}

func overview() string {
	lines := []string{"usage: kindwright-store COMMAND --from STORE --to STORE [flags]", ""}
	for _, c := range commands {
		lines = append(lines, fmt.Sprintf("  %-8s %s", c.name, c.does))
	}
	return strings.Join(append(lines, "",
		"STORE is bbolt:PATH, or etcd:URL,URL/PREFIX such as etcd:http://127.0.0.1:2379/kindwright.",
		"kindwright-store COMMAND -h lists the flags."), "\n")
}

func parse(command, ends string, args []string, errOut io.Writer) (*flags, error) {
	f := &flags{command: command}
	set := flag.NewFlagSet("kindwright-store "+command, flag.ContinueOnError)
	set.SetOutput(errOut)
	if strings.Contains(ends, "from") {
		set.StringVar(&f.from, "from", "", "the store to read: bbolt:PATH, or etcd:URL,URL/PREFIX; for backup also the URL of a server; for restore a file")
	}
	if strings.Contains(ends, "to") {
		set.StringVar(&f.to, "to", "", "the store to write: bbolt:PATH, or etcd:URL,URL/PREFIX; for backup a file")
	}
	if command == "copy" || command == "restore" {
		set.BoolVar(&f.leaveOut, "leave-out-unreadable", false, "copy what can be read of a damaged store, and name the rest")
		set.Uint64Var(&f.above, "above", 0, "a resourceVersion above which the new store begins, beside all that are known")
	}
	if command == "copy" {
		set.BoolVar(&f.prepare, "prepare", false, "copy everything, and leave the target for a later copy that takes the difference over; the source may be a backup")
		set.BoolVar(&f.follow, "follow", false, "go on copying changes until interrupted, and finish then: stop the servers first")
	}
	f.etcd.add(set)
	f.server.add(set, command)
	if err := set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, err
		}
		return nil, usageError{err}
	}
	switch {
	case set.NArg() > 0:
		return nil, usageError{fmt.Errorf("unexpected argument %q: stores are given with --from and --to", set.Arg(0))}
	case f.from == "" && strings.Contains(ends, "from"):
		return nil, usageError{errors.New("--from is missing: say which store to read")}
	case f.to == "" && strings.Contains(ends, "to"):
		return nil, usageError{errors.New("--to is missing: say where to write")}
	case storage.Revision(f.above) > copy.HighestAbove:
		return nil, usageError{fmt.Errorf("--above %d: there is no room above it, give at most %d", f.above, copy.HighestAbove)}
	case f.prepare && f.follow:
		return nil, usageError{errors.New("--prepare ends at once and --follow goes on: give one of them")}
	}
	if err := errors.Join(f.etcd.check(), f.server.check()); err != nil {
		return nil, usageError{err}
	}
	return f, nil
}

// named says what a revision is to the reader.
func named(r storage.Revision) string { return "revision " + r.String() }
