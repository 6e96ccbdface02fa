package driver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/kindwright/kindwright/bench/load"
	"github.com/kindwright/kindwright/bench/process"
)

// Result is the outcome of one run of a workload against one target.
type Result struct {
	Target   string `json:"target"`
	Workload string `json:"workload"`
	Round    int    `json:"round"`

	NotServed  string `json:"notServed,omitempty"` // the server's message; there are no figures then
	Operations int    `json:"operations"`
	Errors     int    `json:"errors"`
	FirstError string `json:"firstError,omitempty"`

	Seconds   float64 `json:"seconds,omitempty"`
	PerSecond float64 `json:"perSecond,omitempty"`
	P50       float64 `json:"p50us,omitempty"`
	P99       float64 `json:"p99us,omitempty"`
	Bytes     int64   `json:"bytes,omitempty"`

	ServerCPU float64 `json:"serverCPUus,omitempty"` // microseconds per operation
	DriverCPU float64 `json:"driverCPUus,omitempty"` // the same for this process

	// Figures are additional results. Their names end in their unit.
	Figures map[string]float64 `json:"figures,omitempty"`
}

// Workload is a kind of load on a server.
type Workload struct {
	Name string
	Doc  string // one line

	// Fresh means that the figures are about the server's memory, so it must have just started.
	Fresh bool

	run func(ctx context.Context, t *Target) (Result, error)
}

// Workloads returns all workloads, in the order in which they disturb each other least.
func Workloads(scale Scale) []Workload {
	return slices.Concat(getWorkloads(), listWorkloads(), watchWorkloads(scale), writeWorkloads(), memoryWorkloads(scale))
}

// unable is the reason why an operation is not served if no status code says so.
type unable string

// Error returns the reason.
func (u unable) Error() string { return string(u) }

// Run runs the workload. Errors are part of the result.
func (w Workload) Run(ctx context.Context, t *Target) Result {
	r, err := w.run(ctx, t)
	switch words, refused := notServed(err); {
	case err == nil:
	case refused:
		r.NotServed = words
	default:
		r.Errors++
		if r.FirstError == "" {
			r.FirstError = err.Error()
		}
	}
	r.Target, r.Workload = t.Name, w.Name
	return r
}

// with adds figures to a result.
func (r Result) with(figures map[string]float64) Result {
	if r.Figures == nil {
		r.Figures = map[string]float64{}
	}
	maps.Copy(r.Figures, figures)
	return r
}

// cost is the processor time spent by the processes.
type cost struct{ server, driver time.Duration }

// spent runs f between the calls of Observe and returns its cost.
func (t *Target) spent(ctx context.Context, f func()) (cost, error) {
	done := func(context.Context) error { return nil }
	if t.Observe != nil {
		var err error
		if done, err = t.Observe(ctx); err != nil {
			return cost{}, err
		}
	}
	c, err := t.costOf(f)
	return c, errors.Join(err, done(ctx))
}

// costOf runs f and returns its cost.
func (t *Target) costOf(f func()) (cost, error) {
	self := process.Group{os.Getpid()}
	server, err := t.Processes.CPU()
	mine, mineErr := self.CPU()
	f()
	serverAfter, afterErr := t.Processes.CPU()
	mineAfter, mineAfterErr := self.CPU()
	return cost{serverAfter - server, mineAfter - mine}, errors.Join(err, mineErr, afterErr, mineAfterErr)
}

// loop runs an operation in a loop and measures its cost.
func (t *Target) loop(ctx context.Context, l load.Loop, op load.Operation) (Result, error) {
	if err := t.connect(ctx, t.clients); err != nil {
		return Result{}, err
	}
	var out load.Outcome
	c, err := t.spent(ctx, func() { out = l.Run(ctx, op) })
	if err != nil {
		return Result{}, err
	}
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	return account(out, c), nil
}

// account converts an outcome to a result.
func account(out load.Outcome, c cost) Result {
	r := Result{
		Operations: len(out.Latencies), Errors: out.Failed, Bytes: out.Bytes,
		Seconds: out.Elapsed.Seconds(),
		P50:     micros(load.Percentile(out.Latencies, 0.5)),
		P99:     micros(load.Percentile(out.Latencies, 0.99)),
	}
	if out.Failure != nil {
		r.FirstError = out.Failure.Error()
	}
	if n := float64(r.Operations); n > 0 {
		r.PerSecond = n / r.Seconds
		r.ServerCPU, r.DriverCPU = micros(c.server)/n, micros(c.driver)/n
	}
	return r
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }

// closed returns a loop with as many operations as the scale allows.
func (t *Target) closed(workers int) load.Loop {
	return load.Loop{Workers: workers, Operations: t.scale.Operations, Time: t.scale.Time}
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("while waiting: %w", ctx.Err())
	}
}
