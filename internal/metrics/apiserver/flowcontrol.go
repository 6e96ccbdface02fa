package apiserver

import (
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/internal/metrics"
	snapshot "github.com/kindwright/kindwright/metrics"
)

// FlowLevel is what a priority level does at a moment, in seats.
type FlowLevel struct {
	Name                                 string
	Nominal, Lower, Upper, Limit, InUse  int
	Target, Average, Deviation, Smoothed float64
	High                                 float64
	Use                                  snapshot.Sample // a histogram of the part of its seats that it uses, by nanosecond
}

// FlowSchema counts the requests of one schema at one level. Its methods may be called concurrently.
type FlowSchema struct {
	Level, Name string

	executing, waiting atomic.Int64
	dispatched         atomic.Uint64
	rejected           metrics.Counts
	waits, refusals    *metrics.Histogram
	executions         *metrics.Histogram
}

// flowTimes are the bounds of times in queues and of executions.
var flowTimes = []float64{0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30}

// NewFlowSchema returns the series of a schema.
func NewFlowSchema(level, name string) *FlowSchema {
	return &FlowSchema{
		Level: level, Name: name, waits: metrics.NewHistogram(flowTimes), refusals: metrics.NewHistogram(flowTimes),
		executions: metrics.NewHistogram(flowTimes),
	}
}

// Waits counts a request that asks for a seat.
func (s *FlowSchema) Waits() { s.waiting.Add(1) }

// Began counts a request that has got its seat.
func (s *FlowSchema) Began(waited time.Duration) {
	s.waiting.Add(-1)
	s.executing.Add(1)
	s.dispatched.Add(1)
	s.waits.Observe(waited.Seconds())
}

// Refused counts a request that gets no seat.
func (s *FlowSchema) Refused(reason string, waited time.Duration) {
	s.waiting.Add(-1)
	s.rejected.Add(s.Level, s.Name, reason)
	s.refusals.Observe(waited.Seconds())
}

// Ended counts a request that has given its seat back.
func (s *FlowSchema) Ended(took time.Duration) {
	s.executing.Add(-1)
	s.executions.Observe(took.Seconds())
}

// Executing and Waiting return how many requests do at the moment.
func (s *FlowSchema) Executing() int64 { return s.executing.Load() }

// Waiting returns how many requests wait.
func (s *FlowSchema) Waiting() int64 { return s.waiting.Load() }

// The families of priority levels and flow schemas.
const (
	flowNominal = iota
	flowLower
	flowUpper
	flowLimit
	flowInUse
	flowTarget
	flowAverage
	flowDeviation
	flowSmoothed
	flowHigh
	flowExecuting
	flowWaiting
	flowDispatched
	flowRejected
	flowWaits
	flowExecutions
	flowFraction
	flowUse
)

func describeFlow() []metrics.Desc {
	const prefix = "apiserver_flowcontrol_"
	of := func(name, help string, labels ...string) metrics.Desc { return gauge(prefix+name, help, labels...) }
	level, both := "priority_level", []string{"priority_level", "flow_schema"}
	return []metrics.Desc{
		flowNominal:    of("nominal_limit_seats", "The seats that a priority level has by its configuration.", level),
		flowLower:      of("lower_limit_seats", "The seats that a priority level has left if it lends all it may.", level),
		flowUpper:      of("upper_limit_seats", "The seats that a priority level has if it borrows all it may.", level),
		flowLimit:      of("current_limit_seats", "The seats that a priority level has now.", level),
		flowInUse:      of("current_executing_seats", "The seats of a priority level that are taken.", level),
		flowTarget:     of("target_seats", "The seats that a priority level should have.", level),
		flowAverage:    of("demand_seats_average", "Mean demand of a priority level in the last period.", level),
		flowDeviation:  of("demand_seats_stdev", "Standard deviation of the demand of a priority level in the last period.", level),
		flowSmoothed:   of("demand_seats_smoothed", "Demand of a priority level, smoothed over periods.", level),
		flowHigh:       of("demand_seats_high_watermark", "Highest demand of a priority level in the last period.", level),
		flowExecuting:  of("current_executing_requests", "Requests that have a seat, watches until they have begun.", both...),
		flowWaiting:    of("current_inqueue_requests", "Requests that wait for a seat.", both...),
		flowDispatched: counter(prefix+"dispatched_requests_total", "Requests that got a seat.", both...),
		flowRejected:   counter(prefix+"rejected_requests_total", "Requests that got no seat.", "priority_level", "flow_schema", "reason"),
		flowWaits: histogram(prefix+"request_wait_duration_seconds", "Time that requests waited for a seat.",
			"priority_level", "flow_schema", "execute"),
		flowExecutions: histogram(prefix+"request_execution_seconds", "Time that requests had a seat.", both...),
		flowUse: histogram(prefix+"priority_level_seat_utilization",
			"The part of its seats that a priority level uses, at the end of every nanosecond.", "phase", "priority_level"),
		flowFraction: of("seat_fair_frac", "What priority levels have of their targets."),
	}
}

// CollectFlow registers the families. read returns what there is at the moment.
func CollectFlow(r *metrics.Registry, read func() (levels []FlowLevel, schemas []*FlowSchema, fraction float64)) {
	r.Collect(describeFlow(), func(b *metrics.Batch) {
		levels, schemas, fraction := read()
		b.Add(flowFraction, fraction)
		for _, l := range levels {
			for family, value := range map[int]float64{
				flowNominal: float64(l.Nominal), flowLower: float64(l.Lower), flowUpper: float64(l.Upper),
				flowLimit: float64(l.Limit), flowInUse: float64(l.InUse), flowTarget: l.Target, flowAverage: l.Average,
				flowDeviation: l.Deviation, flowSmoothed: l.Smoothed, flowHigh: l.High,
			} {
				b.Add(family, value, l.Name)
			}
			if l.Use.Count > 0 {
				b.Counted(flowUse, l.Use, "executing", l.Name)
			}
		}
		for _, s := range schemas {
			s.collect(b)
		}
	})
}

func (s *FlowSchema) collect(b *metrics.Batch) {
	b.Add(flowExecuting, float64(s.executing.Load()), s.Level, s.Name)
	b.Add(flowWaiting, float64(s.waiting.Load()), s.Level, s.Name)
	if n := s.dispatched.Load(); n > 0 {
		b.Add(flowDispatched, float64(n), s.Level, s.Name)
		b.Observed(flowWaits, s.waits, flowTimes, s.Level, s.Name, "true")
		b.Observed(flowExecutions, s.executions, flowTimes, s.Level, s.Name)
	}
	if s.refusals.Count() > 0 {
		s.rejected.Report(b, flowRejected)
		b.Observed(flowWaits, s.refusals, flowTimes, s.Level, s.Name, "false")
	}
}
