package metrics

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	snapshot "github.com/kindwright/kindwright/metrics"
)

// A Desc describes a family.
type Desc struct {
	Name   string
	Help   string
	Type   snapshot.Type
	Labels []string
}

// A Registry holds the families of one server. The zero value is empty and ready. The server
// registers its families while it is put together, and is scraped after that.
type Registry struct {
	groups []group
	limits *Limits // nil: everything is shown
}

type group struct {
	families []Desc
	run      func(*Batch)
}

var _ snapshot.Source = (*Registry)(nil)

// Collect registers families. Each scrape calls run, which adds the samples of all these families
// to the batch; calls may be concurrent. The registry keeps the list, and nobody changes it.
//
// A scrape holds the samples of families that are registered together in memory at once, and those
// of a family that is registered alone only while somebody reads them. A family that is registered twice has the samples
// of both.
func (r *Registry) Collect(families []Desc, run func(*Batch)) {
	r.groups = append(r.groups, group{families, run})
}

// A Batch takes the samples of one scrape.
type Batch struct{ families []snapshot.Family }

// Add adds a sample to the i-th family of the list given to Collect. It panics if the number of label
// values is not that of the family's labels. Samples with the same labels are added up.
func (b *Batch) Add(i int, value float64, labels ...string) {
	b.add(i, snapshot.Sample{Value: value}, labels)
}

// Observed is Add for a histogram. Its buckets are those of some of its bounds, so that families with
// different bounds can share a histogram.
func (b *Batch) Observed(i int, h *Histogram, bounds []float64, labels ...string) {
	b.add(i, h.read(bounds), labels)
}

// Counted is Add for a histogram that somebody else has counted.
func (b *Batch) Counted(i int, s snapshot.Sample, labels ...string) { b.add(i, s, labels) }

func (b *Batch) add(i int, s snapshot.Sample, labels []string) {
	f := &b.families[i]
	if len(labels) != len(f.Labels) {
		panic(fmt.Sprintf("metrics: %s has %d labels, not %d", f.Name, len(f.Labels), len(labels)))
	}
	s.Labels = slices.Clone(labels)
	for j, l := range s.Labels {
		s.Labels[j] = strings.ToValidUTF8(l, "\uFFFD") // as the text form demands
	}
	f.Samples = append(f.Samples, s)
}

// A source reads a family when its turn comes.
type source struct {
	name string
	read func() snapshot.Family
}

// Families returns what is counted at this moment. Families without samples are left out.
func (r *Registry) Families() iter.Seq[snapshot.Family] {
	return func(yield func(snapshot.Family) bool) {
		var sources []source
		for _, g := range r.groups {
			if len(g.families) == 1 {
				sources = append(sources, source{g.families[0].Name, func() snapshot.Family { return g.read()[0] }})
				continue
			}
			for _, f := range g.read() {
				sources = append(sources, source{f.Name, func() snapshot.Family { return f }})
			}
		}
		if r.limits != nil {
			sources = r.limits.limited(sources)
		}
		slices.SortFunc(sources, func(a, b source) int { return cmp.Compare(a.name, b.name) })
		for len(sources) > 0 {
			var f snapshot.Family
			if f, sources = joined(sources); len(f.Samples) > 0 && !yield(f) {
				return
			}
		}
	}
}

// joined reads the first of sorted sources, and those that have samples of the same family. It returns the rest.
func joined(sources []source) (snapshot.Family, []source) {
	f, rest := sources[0].read(), sources[1:]
	if len(rest) == 0 || rest[0].name != f.Name {
		return f, rest
	}
	f.Samples = slices.Clone(f.Samples)
	for len(rest) > 0 && rest[0].name == f.Name {
		f.Samples = append(f.Samples, rest[0].read().Samples...)
		rest = rest[1:]
	}
	slices.SortStableFunc(f.Samples, byLabels)
	f.Samples = sumUp(f.Samples)
	return f, rest
}

// read returns the families of a group, with their samples in order.
func (g *group) read() []snapshot.Family {
	b := Batch{make([]snapshot.Family, len(g.families))}
	for i, d := range g.families {
		b.families[i] = snapshot.Family{Name: d.Name, Help: d.Help, Type: d.Type, Labels: d.Labels}
	}
	g.run(&b)
	for i := range b.families {
		f := &b.families[i]
		slices.SortStableFunc(f.Samples, byLabels)
		f.Samples = sumUp(f.Samples)
	}
	return b.families
}

func byLabels(a, b snapshot.Sample) int { return slices.Compare(a.Labels, b.Labels) }

// sumUp adds up the neighbors that have the same labels: two of them would make the scrape invalid.
func sumUp(samples []snapshot.Sample) []snapshot.Sample {
	kept := samples[:0]
	for _, s := range samples {
		if len(kept) == 0 || byLabels(kept[len(kept)-1], s) != 0 {
			kept = append(kept, s)
			continue
		}
		sum := &kept[len(kept)-1]
		sum.Value, sum.Count, sum.Sum = sum.Value+s.Value, sum.Count+s.Count, sum.Sum+s.Sum
		for i := range s.Buckets {
			sum.Buckets[i].Count += s.Buckets[i].Count
		}
	}
	return kept
}
