package metrics

import (
	"slices"

	snapshot "github.com/kindwright/kindwright/metrics"
)

// Limits restrict what a registry shows. The values are counted all the same.
type Limits struct {
	// Disabled names families that are not shown.
	Disabled []string

	// Allowed lists the values of labels that are shown, by family and label. Samples with other
	// values are added up under the value [Unexpected].
	Allowed map[string]map[string][]string
}

// Unexpected is the value of a label that is not among those allowed.
const Unexpected = "unexpected"

// Limit restricts what the registry shows. Families that count what was left out are added. It is
// called before the first scrape.
func (r *Registry) Limit(l Limits) { r.limits = &l }

// limited returns the sources that a registry with limits shows.
func (l *Limits) limited(sources []source) []source {
	unexpected := uint64(0)
	shown := slices.DeleteFunc(sources, func(s source) bool {
		return slices.Contains(l.Disabled, s.name)
	})
	for i, s := range shown {
		if allowed := l.Allowed[s.name]; len(allowed) > 0 {
			f, more := fold(s.read(), allowed)
			unexpected += more
			shown[i].read = func() snapshot.Family { return f }
		}
	}
	counter := func(name, help string, value uint64) source {
		return source{name, func() snapshot.Family {
			samples := []snapshot.Sample{{Value: float64(value)}}
			return snapshot.Family{Name: name, Help: help, Type: snapshot.Counter, Samples: samples}
		}}
	}
	disabled := slices.Compact(slices.Sorted(slices.Values(l.Disabled)))
	return append(shown,
		counter("cardinality_enforcement_unexpected_categorizations_total",
			"What was counted under label values that are not allowed.", unexpected),
		counter("disabled_metrics_total", "The metrics that are disabled.", uint64(len(disabled))))
}

// fold adds up the samples whose labels have values that are not allowed. It returns how many
// observations these are; a gauge is one for each sample.
func fold(f snapshot.Family, allowed map[string][]string) (snapshot.Family, uint64) {
	unexpected := uint64(0)
	f.Samples = slices.Clone(f.Samples)
	for i := range f.Samples {
		s := &f.Samples[i]
		s.Labels = slices.Clone(s.Labels)
		for j, label := range f.Labels {
			if values, limited := allowed[label]; limited && !slices.Contains(values, s.Labels[j]) {
				s.Labels[j] = Unexpected
				unexpected += observations(f.Type, s)
			}
		}
	}
	slices.SortStableFunc(f.Samples, byLabels)
	f.Samples = sumUp(f.Samples)
	return f, unexpected
}

// observations returns how often a sample was counted.
func observations(of snapshot.Type, s *snapshot.Sample) uint64 {
	switch of {
	case snapshot.Counter:
		return uint64(max(s.Value, 0))
	case snapshot.Histogram, snapshot.Summary:
		return s.Count
	default:
		return 1
	}
}
