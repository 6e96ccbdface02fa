package metrics

import "iter"

// Type is the type of a family's values.
type Type string

// The types of families.
const (
	Counter   Type = "counter"   // only grows while the process runs
	Gauge     Type = "gauge"     // goes up and down
	Histogram Type = "histogram" // counts observations in buckets
	Summary   Type = "summary"   // counts observations and knows some of their quantiles
)

// A Source can be scraped.
type Source interface {
	// Families returns what the source counts at this moment: families in the order of their names,
	// each with its samples in the order of their labels. No name and, within a family, no list of
	// label values occurs twice. A family without samples may be left out.
	//
	// Callers read the families and do not change them. They may keep them, and stop at any time. Calls
	// may run concurrently with each other and with the work that is counted.
	Families() iter.Seq[Family]
}

// A Family is a number of samples that share a name and a type.
type Family struct {
	Name   string
	Help   string // one sentence for people
	Type   Type
	Labels []string // the names of the labels that every sample has

	Samples []Sample
}

// A Sample is one series of a family at one moment.
type Sample struct {
	Labels []string // the values of Family.Labels, in that order

	Value float64 // of a counter or a gauge

	// Count and Sum are about the observations of a histogram or a summary.
	Count uint64
	Sum   float64

	// Buckets of a histogram, with growing bounds. The bucket that has no bound is left out: it
	// holds Count observations.
	Buckets []Bucket

	Quantiles []Quantile // of a summary
}

// A Bucket counts the observations up to a bound, those of smaller buckets included.
type Bucket struct {
	Bound float64
	Count uint64
}

// A Quantile is the value that a share of the observations does not exceed.
type Quantile struct {
	Share float64 // from 0 to 1
	Value float64
}
