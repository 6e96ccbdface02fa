package main

import (
	"fmt"
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/egress"
	"github.com/kindwright/kindwright/egress/konnectivity"
)

// tunnels are those that the server's connections go through.
type tunnels struct {
	file     string
	selector *egress.Selector // one that selects nothing without a file
}

const flagEgress = "egress-selector-config-file"

func (t *tunnels) flags(f *pflag.FlagSet) {
	f.StringVar(&t.file, flagEgress, "", "file with an EgressSelectorConfiguration: the tunnels through which the server connects to others")
}

// check rejects a file that is not there.
func (t *tunnels) check() error {
	if t.file == "" {
		return nil
	}
	if _, err := os.Stat(t.file); err != nil {
		return fmt.Errorf("--%s: %w", flagEgress, err)
	}
	return nil
}

// open reads the file. As in Kubernetes, its list may be missing.
func (t *tunnels) open(log logr.Logger) (err error) {
	o := egress.Options{GRPC: konnectivity.Connect, OptionalSelections: true, Logger: log}
	if t.file == "" {
		t.selector, err = egress.New(egress.Configuration{}, o)
		return err
	}
	if t.selector, err = egress.Load(t.file, o); err != nil {
		return fmt.Errorf("--%s: %w", flagEgress, err)
	}
	return nil
}

// option has the server's connections go through the tunnels.
func (t *tunnels) option() kindwright.Option { return kindwright.Egress(t.selector) }
