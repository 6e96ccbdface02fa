package apiserver

import (
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/internal/metrics"
)

// Step is one of the two passes of admission.
type Step uint8

// The passes.
const (
	Admit Step = iota
	Validate
	steps
)

var stepNames = [steps]string{"admit", "validate"}

// Operation is what a request to admission is about. Values beyond Connecting are counted as Connecting.
type Operation uint8

// The operations.
const (
	Create Operation = iota
	Update
	Deletion
	Connecting
	operations
)

var operationNames = [operations]string{"CREATE", "UPDATE", "DELETE", "CONNECT"}

// Admission has the families about admission.
type Admission struct {
	steps   *Phases
	plugins *metrics.Vector[metrics.Histogram]
}

// NewAdmission registers the families of admission.
func NewAdmission(r *metrics.Registry) *Admission {
	bounds := []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5}
	all := metrics.Histograms(r, metrics.Desc{
		Name: "apiserver_admission_step_admission_duration_seconds", Labels: []string{"type", "operation", "rejected"},
		Help: "Time of all plugins together, by pass (admit or validate) and operation.",
	}, bounds)
	plugins := metrics.Histograms(r, metrics.Desc{
		Name: "apiserver_admission_controller_admission_duration_seconds", Labels: []string{"name", "type", "operation", "rejected"},
		Help: "Time of one plugin, by pass (admit or validate) and operation.",
	}, bounds)
	return &Admission{steps: &Phases{of: all}, plugins: plugins}
}

// Steps returns the handle for all plugins together.
func (a *Admission) Steps() *Phases { return a.steps }

// Plugin returns the handle of one plugin.
func (a *Admission) Plugin(name string) *Phases {
	return &Phases{of: a.plugins, prefix: []string{name}}
}

// Phases has the series of one plugin, or of all together.
type Phases struct {
	of     *metrics.Vector[metrics.Histogram]
	prefix []string
	series [steps][operations][2]atomic.Pointer[metrics.Histogram]
}

// Observe counts one pass.
func (p *Phases) Observe(s Step, o Operation, rejected bool, took time.Duration) {
	s, o = min(s, steps-1), min(o, operations-1)
	refused, name := 0, "false"
	if rejected {
		refused, name = 1, "true"
	}
	slot := &p.series[s][o][refused]
	h := slot.Load()
	if h == nil {
		h = p.of.With(append(p.prefix[:len(p.prefix):len(p.prefix)], stepNames[s], operationNames[o], name)...)
		slot.Store(h) // two callers may do so: both have the same histogram
	}
	h.Observe(took.Seconds())
}
