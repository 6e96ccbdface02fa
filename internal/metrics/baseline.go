package metrics

import (
	"iter"
	"slices"
	"strings"

	snapshot "github.com/kindwright/kindwright/metrics"
)

// A Baseline is what counters and histograms had counted when somebody reset them. The counters
// themselves run on, so a reset costs those who count nothing.
type Baseline struct{ families map[string][]snapshot.Sample }

// NewBaseline returns the baseline of now.
func NewBaseline(families iter.Seq[snapshot.Family]) *Baseline {
	b := &Baseline{families: map[string][]snapshot.Sample{}}
	for f := range families {
		if resets(&f) {
			b.families[f.Name] = f.Samples
		}
	}
	return b
}

// resets reports whether a reset concerns a family. What the process counts about itself runs on,
// as in Kubernetes.
func resets(f *snapshot.Family) bool {
	return (f.Type == snapshot.Counter || f.Type == snapshot.Histogram) &&
		!strings.HasPrefix(f.Name, "go_") && !strings.HasPrefix(f.Name, "process_")
}

// Since returns what was counted since the baseline. Series that have not changed are left out.
func (b *Baseline) Since(families iter.Seq[snapshot.Family]) iter.Seq[snapshot.Family] {
	return func(yield func(snapshot.Family) bool) {
		for f := range families {
			if before := b.families[f.Name]; len(before) > 0 {
				f.Samples = since(before, f.Samples)
			}
			if len(f.Samples) > 0 && !yield(f) {
				return
			}
		}
	}
}

// since subtracts samples of before. Both are in the order of their labels.
func since(before, now []snapshot.Sample) (out []snapshot.Sample) {
	for _, s := range now {
		i, known := slices.BinarySearchFunc(before, s, byLabels)
		if !known {
			out = append(out, s)
			continue
		}
		old := &before[i]
		if s.Value == old.Value && s.Count == old.Count {
			continue
		}
		if s.Value < old.Value || s.Count < old.Count { // it was made again
			out = append(out, s)
			continue
		}
		s.Value, s.Count, s.Sum = s.Value-old.Value, s.Count-old.Count, s.Sum-old.Sum
		s.Buckets = slices.Clone(s.Buckets)
		for j := range min(len(s.Buckets), len(old.Buckets)) {
			s.Buckets[j].Count -= min(old.Buckets[j].Count, s.Buckets[j].Count)
		}
		out = append(out, s)
	}
	return out
}
