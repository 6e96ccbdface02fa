package apiserver

import (
	"time"

	"github.com/kindwright/kindwright/internal/metrics"
)

// The families of Expressions.
const (
	compilationDuration = iota
	evaluationDuration
)

var expressionFamilies = [...]metrics.Desc{
	compilationDuration: histogram("apiserver_cel_compilation_duration_seconds", "Time to compile the rules of a schema."),
	evaluationDuration:  histogram("apiserver_cel_evaluation_duration_seconds", "Time to evaluate the rules of a schema for an object."),
}

var expressionTimes = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}

// Expressions counts how long the rules of schemas take.
type Expressions struct{ compiled, evaluated *metrics.Histogram }

// NewExpressions returns Expressions without observations.
func NewExpressions() *Expressions {
	return &Expressions{metrics.NewHistogram(expressionTimes), metrics.NewHistogram(expressionTimes)}
}

// Compiled counts the rules of a schema that were compiled.
func (m *Expressions) Compiled(took time.Duration) { m.compiled.Observe(took.Seconds()) }

// Evaluated counts the rules that were evaluated for an object.
func (m *Expressions) Evaluated(took time.Duration) { m.evaluated.Observe(took.Seconds()) }

// CollectMetrics registers the families.
func (m *Expressions) CollectMetrics(r *metrics.Registry) {
	r.Collect(expressionFamilies[:], func(b *metrics.Batch) {
		b.Observed(compilationDuration, m.compiled, expressionTimes)
		b.Observed(evaluationDuration, m.evaluated, expressionTimes)
	})
}
