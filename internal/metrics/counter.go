package metrics

import (
	"math"
	"sync/atomic"

	snapshot "github.com/kindwright/kindwright/metrics"
)

// A Counter only grows. Its methods may be called concurrently.
type Counter struct{ n atomic.Uint64 }

// Inc adds one.
func (c *Counter) Inc() { c.n.Add(1) }

// Add adds n.
func (c *Counter) Add(n uint64) { c.n.Add(n) }

func (c *Counter) read(s *snapshot.Sample) { s.Value = float64(c.n.Load()) }

// A Gauge goes up and down. Its methods may be called concurrently.
type Gauge struct{ number }

// Set sets the value.
func (g *Gauge) Set(v float64) { g.bits.Store(math.Float64bits(v)) }

// Add adds v, which may be negative.
func (g *Gauge) Add(v float64) { g.add(v) }

func (g *Gauge) read(s *snapshot.Sample) { s.Value = g.load() }

// A number is a float64 that is added to concurrently.
type number struct{ bits atomic.Uint64 }

func (n *number) load() float64 { return math.Float64frombits(n.bits.Load()) }

func (n *number) add(v float64) {
	for {
		old := n.bits.Load()
		if n.bits.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+v)) {
			return
		}
	}
}
