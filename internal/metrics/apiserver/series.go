package apiserver

import (
	"sync"

	"github.com/kindwright/kindwright/internal/metrics"
)

// series are the histograms of a family by the values of four labels. Their number is bounded, since clients
// choose some of the values. The zero value is ready for use, and it is safe for concurrent use.
type series struct {
	mu  sync.Mutex
	all map[[4]string]*metrics.Histogram
}

// histogram returns the histogram of some values, nil if it would be one more than most.
func (s *series) histogram(labels [4]string, bounds []float64, most int) *metrics.Histogram {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.all[labels]
	if h == nil && len(s.all) < most {
		if s.all == nil {
			s.all = map[[4]string]*metrics.Histogram{}
		}
		h = metrics.NewHistogram(bounds)
		s.all[labels] = h
	}
	return h
}

// each calls report with each histogram.
func (s *series) each(report func(labels [4]string, h *metrics.Histogram)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for labels, h := range s.all {
		report(labels, h)
	}
}
