package program

import (
	"flag"
	"fmt"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/egress"
)

// tunnels are those that the server's connections go through.
type tunnels struct {
	file     string
	selector *egress.Selector // nil without a file
}

const flagEgress = "egress-selector-config-file"

func (t *tunnels) add(set *flag.FlagSet) {
	set.StringVar(&t.file, flagEgress, "", "file with an EgressSelectorConfiguration: the tunnels through which the server connects to others")
}

func (t *tunnels) open(log logr.Logger) (err error) {
	if t.file == "" {
		return nil
	}
	if t.selector, err = egress.Load(t.file, egress.Options{Logger: log}); err != nil {
		return fmt.Errorf("--%s: %w", flagEgress, err)
	}
	return nil
}

// options have the server's connections go through the tunnels.
func (t *tunnels) options() []kindwright.Option {
	if t.selector == nil {
		return nil
	}
	return []kindwright.Option{kindwright.Egress(t.selector)}
}
