package flowcontrol

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/kindwright/kindwright/internal/flow"
	"github.com/kindwright/kindwright/internal/metrics"
	"github.com/kindwright/kindwright/internal/metrics/apiserver"
	snapshot "github.com/kindwright/kindwright/metrics"
)

// Dump shows what happens at the moment, one line for each of what: priority_levels, queues (those that
// have requests), or requests (how many, by schema). The first two have the columns of kube-apiserver, and
// levels one more, Seats. A level that goes is gone at once, so that none is quiescing. ok is false for
// other words.
func (c *Controller) Dump(what string) (text string, ok bool) {
	var rows [][]any
	switch what {
	case "priority_levels":
		rows = append(rows, []any{
			"PriorityLevelName", "ActiveQueues", "IsIdle", "IsQuiescing", "WaitingRequests", "ExecutingRequests",
			"DispatchedRequests", "RejectedRequests", "TimedoutRequests", "CancelledRequests", "Seats",
		})
		for _, l := range c.states() {
			rows = append(rows, []any{
				l.name, l.ActiveQueues, l.Running+l.Waiting == 0, false, l.Waiting, l.Running,
				l.Ended[flow.Seated], l.Ended[flow.QueueFull] + l.Ended[flow.NoSeat], l.Ended[flow.TimedOut], l.Ended[flow.Cancelled], l.Seats,
			})
		}
	case "queues":
		rows = append(rows, []any{
			"PriorityLevelName", "Index", "PendingRequests", "ExecutingRequests", "SeatsInUse", "NextDispatchR",
			"InitialSeatsSum", "MaxSeatsSum", "TotalWorkSum",
		})
		for _, l := range c.states() {
			for _, q := range l.Queues {
				rows = append(rows, []any{
					l.name, q.Number, q.Waiting, q.Running, q.RunningSeats, seatSeconds(q.Turn),
					q.WaitingSeats, q.WaitingSeats, seatSeconds(q.WaitingWork),
				})
			}
		}
	case "requests":
		rows = append(rows, []any{"PriorityLevelName", "FlowSchemaName", "WaitingRequests", "ExecutingRequests"})
		_, schemas, _ := c.read()
		for _, s := range schemas {
			rows = append(rows, []any{s.Level, s.Name, s.Waiting(), s.Executing()})
		}
	default:
		return "", false
	}
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 1, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			end := ",\t"
			if i == len(row)-1 {
				end = "\n"
			}
			_, _ = fmt.Fprint(table, cell, end) // in memory
		}
	}
	_ = table.Flush()
	return out.String(), true
}

func seatSeconds(n float64) string { return fmt.Sprintf("%.8fss", n) }

type namedState struct {
	name string
	flow.State
}

// states returns what all levels do, by name.
func (c *Controller) states() []namedState {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []namedState
	for name, s := range c.shared {
		out = append(out, namedState{name, s.level.State()})
	}
	slices.SortFunc(out, func(a, b namedState) int { return strings.Compare(a.name, b.name) })
	return out
}

// CollectMetrics registers the metrics of the controller, under Kubernetes' names.
func (c *Controller) CollectMetrics(r *metrics.Registry) { apiserver.CollectFlow(r, c.read) }

func useSample(u *flow.Use) snapshot.Sample {
	s := snapshot.Sample{Count: u.Count, Sum: u.Sum}
	n := uint64(0)
	for i, bound := range flow.UseBounds() {
		n += u.Buckets[i]
		s.Buckets = append(s.Buckets, snapshot.Bucket{Bound: bound, Count: n})
	}
	return s
}

func (c *Controller) read() (levels []apiserver.FlowLevel, schemas []*apiserver.FlowSchema, part float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.shared {
		one := s.last
		state := s.level.State()
		one.InUse, one.Use = state.RunningSeats, useSample(&state.Use)
		levels = append(levels, one)
	}
	for _, s := range c.series {
		schemas = append(schemas, s)
	}
	slices.SortFunc(schemas, func(a, b *apiserver.FlowSchema) int {
		return cmp.Or(strings.Compare(a.Level, b.Level), strings.Compare(a.Name, b.Name))
	})
	return levels, schemas, c.part
}
