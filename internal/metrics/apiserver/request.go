package apiserver

import (
	"cmp"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kindwright/kindwright/internal/metrics"
)

// component is the value of the label of that name: what of Kubernetes' servers this one stands for.
const component = "apiserver"

// Requests counts requests.
type Requests struct {
	// HandshakeErrors counts the TLS handshakes that failed.
	HandshakeErrors atomic.Uint64

	reading, writing atomic.Int64 // under way, without long-running ones
	unserved         *Served

	mu     sync.Mutex
	served map[Resource]*Served
	sorted []*Served // by resource; nil when it must be made anew; never changed
}

// NewRequests registers the families of requests.
func NewRequests(r *metrics.Registry) *Requests {
	q := &Requests{served: map[Resource]*Served{}}
	for i := range rowFamilies {
		add := rowSamples[i]
		r.Collect(rowFamilies[i:i+1], func(b *metrics.Batch) {
			for _, s := range q.all() {
				for _, row := range *s.rows.Load() {
					add(b, s, row)
				}
			}
		})
	}
	r.Collect([]metrics.Desc{deprecations}, func(b *metrics.Batch) {
		for _, s := range q.all() {
			if removed := s.removed.Load(); removed != nil && s.requested() {
				b.Add(0, 1, s.Group, s.Version, s.Resource.Resource, s.Subresource, *removed)
			}
		}
	})
	r.Collect(totalFamilies[:], func(b *metrics.Batch) {
		b.Add(inflight, float64(q.reading.Load()), "readOnly")
		b.Add(inflight, float64(q.writing.Load()), "mutating")
		b.Add(handshakes, float64(q.HandshakeErrors.Load()))
	})
	q.unserved = q.Serve(Resource{})
	return q
}

// all returns what is served, in the order of the labels.
func (q *Requests) all() []*Served {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sorted == nil {
		for _, s := range q.served {
			q.sorted = append(q.sorted, s)
		}
		slices.SortFunc(q.sorted, func(a, b *Served) int {
			x, y := a.Resource, b.Resource
			return cmp.Or(cmp.Compare(x.Group, y.Group), cmp.Compare(x.Version, y.Version), cmp.Compare(x.Resource, y.Resource), cmp.Compare(x.Subresource, y.Subresource))
		})
	}
	return q.sorted
}

// Unserved returns the handle of the requests for nothing that is served. Its labels of the resource are
// empty, whatever the request said.
func (q *Requests) Unserved() *Served { return q.unserved }

// A Resource is something that is served, in one version. A path outside of the API, such as /healthz,
// is a Resource of which only Subresource is set, as the label has it.
type Resource struct {
	Group, Version, Resource, Subresource string
}

// Served counts the requests for one resource. Its methods may be called concurrently, also after
// Release, when nobody sees what they count.
type Served struct {
	Resource

	of      *Requests
	removed atomic.Pointer[string] // the release that no longer has it; nil: it is not deprecated

	users int                    // of of.mu: how often Serve returned it, less the calls of Release
	rows  atomic.Pointer[[]*Row] // one for each call that there has been, in order; never changed
}

// Serve returns the handle of a resource that is served. Equal resources have the same handle, so that a
// kind which is replaced goes on counting. Each call of Serve is paired with one of [Served.Release].
func (q *Requests) Serve(r Resource) *Served {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.served[r]
	if s == nil {
		s = &Served{of: q, Resource: r}
		s.rows.Store(new([]*Row))
		q.served[r], q.sorted = s, nil
	}
	s.users++
	return s
}

// Deprecate says that the resource is deprecated in this version, and which release no longer has
// it, "" if that is not known. Nil takes that back.
func (s *Served) Deprecate(removed *string) { s.removed.Store(removed) }

// requested reports whether a request for the resource was let through.
func (s *Served) requested() bool {
	for _, row := range *s.rows.Load() {
		for t := row.codes.Load(); t != nil; t = t.next {
			if t.code != http.StatusUnauthorized && t.code != http.StatusForbidden {
				return true
			}
		}
	}
	return false
}

// Release says that a caller of Serve does not serve the resource any more. When the last one has, the
// resource's series go, and those of requests that are still under way with them.
func (s *Served) Release() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(s.of.served, s.Resource)
		s.of.sorted = nil
	}
}
