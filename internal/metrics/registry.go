package metrics

import (
	"cmp"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"sync"

	snapshot "github.com/kindwright/kindwright/metrics"
)

// A Desc describes a family. Programs write it down; an invalid one panics when it is registered.
type Desc struct {
	Name   string
	Help   string
	Labels []string

	// Type is read by Collect alone. A vector has the type of its values.
	Type snapshot.Type
}

var (
	familyName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	labelName  = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

// check panics if d breaks the rules of the text form.
func (d *Desc) check() {
	if !familyName.MatchString(d.Name) {
		panic(fmt.Sprintf("metrics: %q is not a valid name of a family", d.Name))
	}
	for i, l := range d.Labels {
		reserved := l == "le" && d.Type == snapshot.Histogram || l == "quantile" && d.Type == snapshot.Summary
		if !labelName.MatchString(l) || reserved || slices.Contains(d.Labels[:i], l) {
			panic(fmt.Sprintf("metrics: %s: %q is not a valid name of a label, or occurs twice", d.Name, l))
		}
	}
}

func (d *Desc) family() snapshot.Family {
	return snapshot.Family{Name: d.Name, Help: d.Help, Type: d.Type, Labels: d.Labels}
}

// A Registry holds the families of one server. The zero value is empty and ready. All methods may be
// called concurrently.
type Registry struct {
	mu       sync.Mutex
	vectors  []vector // by name
	collects []collect
	names    map[string]bool
}

// A vector is a Vector[M] without its type.
type vector interface {
	name() string
	gather() snapshot.Family
}

type collect struct {
	families []Desc
	run      func(*Batch)
}

var _ snapshot.Source = (*Registry)(nil)

// claim panics if a family is invalid or its name is taken. The caller holds the lock.
func (r *Registry) claim(d *Desc) {
	d.check()
	if r.names[d.Name] {
		panic(fmt.Sprintf("metrics: %s is registered already", d.Name))
	}
	if r.names == nil {
		r.names = map[string]bool{}
	}
	r.names[d.Name] = true
}

func (r *Registry) add(d *Desc, v vector) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.claim(d)
	at, _ := slices.BinarySearchFunc(r.vectors, v.name(), func(v vector, name string) int { return cmp.Compare(v.name(), name) })
	r.vectors = slices.Insert(slices.Clone(r.vectors), at, v)
}

// Collect registers families whose values exist elsewhere. Each scrape calls run once; it adds the
// samples of all these families to the batch. It must allow concurrent calls.
func (r *Registry) Collect(families []Desc, run func(*Batch)) {
	families = slices.Clone(families)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range families {
		r.claim(&families[i])
	}
	r.collects = append(slices.Clone(r.collects), collect{families, run})
}

// A Batch takes the samples of one scrape.
type Batch struct{ families []snapshot.Family }

// Add adds a sample to the i-th family of the list given to Collect. It panics if the number of label
// values is not that of the family's labels.
func (b *Batch) Add(i int, value float64, labels ...string) {
	b.AddSample(i, snapshot.Sample{Labels: slices.Clone(labels), Value: value})
}

// AddSample is Add for samples that are more than a value. The batch keeps s.
func (b *Batch) AddSample(i int, s snapshot.Sample) {
	f := &b.families[i]
	checkValues(f.Name, f.Labels, s.Labels)
	tidy(s.Labels)
	f.Samples = append(f.Samples, s)
}

// Families returns what is counted at this moment. Families without samples are left out.
func (r *Registry) Families() iter.Seq[snapshot.Family] {
	return func(yield func(snapshot.Family) bool) {
		r.mu.Lock()
		vectors, collects := r.vectors, r.collects
		r.mu.Unlock()

		// Collected families are read first and all at once, since one call brings several. Those of
		// vectors, which are larger, are made one at a time while the others are merged in.
		collected := run(collects)
		for _, v := range vectors {
			for len(collected) > 0 && collected[0].Name < v.name() {
				if !yield(collected[0]) {
					return
				}
				collected = collected[1:]
			}
			if f := v.gather(); len(f.Samples) > 0 && !yield(f) {
				return
			}
		}
		for _, f := range collected {
			if !yield(f) {
				return
			}
		}
	}
}

func run(collects []collect) []snapshot.Family {
	var all []snapshot.Family
	for _, c := range collects {
		b := Batch{families: make([]snapshot.Family, len(c.families))}
		for i := range c.families {
			b.families[i] = c.families[i].family()
		}
		c.run(&b)
		for _, f := range b.families {
			if len(f.Samples) == 0 {
				continue
			}
			// Two samples with the same labels would make the whole scrape invalid.
			slices.SortStableFunc(f.Samples, byLabels)
			f.Samples = slices.CompactFunc(f.Samples, func(a, b snapshot.Sample) bool { return byLabels(a, b) == 0 })
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b snapshot.Family) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

func byLabels(a, b snapshot.Sample) int { return slices.Compare(a.Labels, b.Labels) }
