package apiserver

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/internal/metrics"
)

// The families of Egress.
const (
	dialStarts = iota
	dialTimes
	dialFailures
)

var egressFamilies = [...]metrics.Desc{
	dialStarts: counter("apiserver_egress_dialer_dial_start_total",
		"Connections that were begun through a tunnel.", "protocol", "transport"),
	dialTimes: histogram("apiserver_egress_dialer_dial_duration_seconds",
		"Time until a connection through a tunnel was open.", "protocol", "transport"),
	dialFailures: counter("apiserver_egress_dialer_dial_failure_count",
		"Connections that could not be opened through a tunnel.", "protocol", "transport", "stage"),
}

var egressTimes = []float64{0.005, 0.025, 0.1, 0.5, 2.5, 12.5}

// EgressStage is where the opening of a connection failed.
type EgressStage int

// The stages.
const (
	EgressConnect EgressStage = iota // the tunnel server was not reached
	EgressProxy                      // it did not connect further
)

var egressStages = [...]string{EgressConnect: "connect", EgressProxy: "proxy"}

// Egress counts the connections through tunnels. The zero value is ready for use.
type Egress struct {
	mu    sync.Mutex
	dials map[[2]string]*EgressDials
}

// EgressDials counts those of one protocol and transport.
type EgressDials struct {
	started atomic.Uint64
	failed  [len(egressStages)]atomic.Uint64
	took    *metrics.Histogram
}

// Of returns what counts for a protocol and a transport, which the configuration names.
func (e *Egress) Of(protocol, transport string) *EgressDials {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := [2]string{protocol, transport}
	d := e.dials[key]
	if d == nil {
		d = &EgressDials{took: metrics.NewHistogram(egressTimes)}
		if e.dials == nil {
			e.dials = map[[2]string]*EgressDials{}
		}
		e.dials[key] = d
	}
	return d
}

// Started counts a connection that is begun.
func (d *EgressDials) Started() { d.started.Add(1) }

// Failed counts a connection that could not be opened.
func (d *EgressDials) Failed(at EgressStage) { d.failed[at].Add(1) }

// Opened counts a connection that is open.
func (d *EgressDials) Opened(took time.Duration) { d.took.Observe(took.Seconds()) }

// CollectMetrics registers the families.
func (e *Egress) CollectMetrics(r *metrics.Registry) {
	r.Collect(egressFamilies[:], func(b *metrics.Batch) {
		e.mu.Lock()
		defer e.mu.Unlock()
		for labels, d := range e.dials {
			b.Add(dialStarts, float64(d.started.Load()), labels[:]...)
			b.Observed(dialTimes, d.took, egressTimes, labels[:]...)
			for stage, name := range egressStages {
				if n := d.failed[stage].Load(); n > 0 {
					b.Add(dialFailures, float64(n), labels[0], labels[1], name)
				}
			}
		}
	})
}
