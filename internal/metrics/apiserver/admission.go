package apiserver

import (
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/internal/metrics"
	snapshot "github.com/kindwright/kindwright/metrics"
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

// The families of Admission.
const (
	stepDuration = iota
	stepSummary
	pluginDuration
)

var admissionFamilies = [...]metrics.Desc{
	stepDuration: histogram("apiserver_admission_step_admission_duration_seconds",
		"Time of all plugins together, by pass (admit or validate) and operation.", "type", "operation", "rejected"),
	stepSummary: {
		Name: "apiserver_admission_step_admission_duration_seconds_summary", Type: snapshot.Summary,
		Help:   "Quantiles of the time of all plugins together in the last five hours, by pass (admit or validate) and operation.",
		Labels: []string{"type", "operation", "rejected"},
	},
	pluginDuration: histogram("apiserver_admission_controller_admission_duration_seconds",
		"Time of one plugin, by pass (admit or validate) and operation.", "name", "type", "operation", "rejected"),
}

var admissionTimes = []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5}

// Admission has the series about admission: of each plugin by its name, and under the empty name of
// all together.
type Admission map[string]*Phases

// NewAdmission registers the families of admission for the plugins with these names.
func NewAdmission(r *metrics.Registry, plugins ...string) Admission {
	a := Admission{"": {recent: &summaries{}}}
	for _, name := range plugins {
		a[name] = new(Phases)
	}
	r.Collect(admissionFamilies[:], func(b *metrics.Batch) {
		for name, p := range a {
			p.collect(b, name)
		}
	})
	return a
}

// Phases has the series of one plugin, or of all together.
type Phases struct {
	series [steps][operations][2]atomic.Pointer[metrics.Histogram] // the last index is 1 for what was rejected
	recent *summaries                                              // of all together
}

// summaries are like the series of Phases.
type summaries [steps][operations][2]atomic.Pointer[metrics.Summary]

func (p *Phases) collect(b *metrics.Batch, name string) {
	for s := range p.series {
		for o := range p.series[s] {
			for i, rejected := range [...]string{"false", "true"} {
				h := p.series[s][o][i].Load()
				switch {
				case h == nil:
				case name == "":
					b.Observed(stepDuration, h, admissionTimes, stepNames[s], operationNames[o], rejected)
					if recent := p.recent[s][o][i].Load(); recent != nil {
						b.Counted(stepSummary, recent.Sample(time.Now()), stepNames[s], operationNames[o], rejected)
					}
				default:
					b.Observed(pluginDuration, h, admissionTimes, name, stepNames[s], operationNames[o], rejected)
				}
			}
		}
	}
}

// Observe counts one pass.
func (p *Phases) Observe(s Step, o Operation, rejected bool, took time.Duration) {
	s, o = min(s, steps-1), min(o, operations-1)
	outcome := 0
	if rejected {
		outcome = 1
	}
	slot := &p.series[s][o][outcome]
	h := slot.Load()
	for h == nil {
		slot.CompareAndSwap(nil, metrics.NewHistogram(admissionTimes))
		h = slot.Load()
	}
	h.Observe(took.Seconds())
	if p.recent == nil {
		return
	}
	recent := &p.recent[s][o][outcome]
	all := recent.Load()
	for all == nil {
		recent.CompareAndSwap(nil, new(metrics.Summary))
		all = recent.Load()
	}
	all.Observe(time.Now(), took)
}
