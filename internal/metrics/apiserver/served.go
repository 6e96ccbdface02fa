package apiserver

import (
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/internal/metrics"
)

// A Resource is something that is served, in one version. A path outside of the API, such as /healthz,
// is a Resource of which only Subresource is set, as the label has it.
type Resource struct {
	Group, Version, Resource, Subresource string
}

// Served counts the requests for one resource. Its methods may be called concurrently, also after
// Release, when nobody sees what they count.
type Served struct {
	of       *Requests
	resource Resource
	part     string // the label component

	table  [Verbs][Scopes][DryRuns]atomic.Pointer[row]
	bodies [bodyVerbs]atomic.Pointer[metrics.Histogram]
	events atomic.Pointer[events]
	lists  [Scopes]atomic.Pointer[metrics.Histogram]

	users  int      // of of.mu: how often Serve returned it, less the calls of Release
	remove []func() // of of.mu: one for each series that no other Served has
}

// A row has the series of one Call. What most requests of the call need is there from the beginning.
type row struct {
	duration *metrics.Histogram
	sli      *metrics.Histogram // nil for a dry run
	size     *metrics.Histogram // nil unless it reads

	codes      [codeCount]atomic.Pointer[metrics.Counter]
	terminated [len(terminations) + 1]atomic.Pointer[metrics.Counter]
	running    atomic.Pointer[metrics.Gauge]
	aborted    atomic.Pointer[metrics.Counter]
}

type events struct {
	count *metrics.Counter
	size  *metrics.Histogram
}

// An Outcome says how a request ended.
type Outcome struct {
	Code     int           // of the response; 0 if there was none
	Duration time.Duration // from arrival to the end of the response
	Waited   time.Duration // of it, in queues and for webhooks
	Sent     int64         // bytes of the response's body
	Received int64         // bytes of the request's body; 0 if nobody read it
}

// Serve returns the handle of a resource that is served. Equal resources have the same handle, so that a
// kind which is replaced goes on counting. Each call of Serve is paired with one of [Served.Release].
func (q *Requests) Serve(r Resource) *Served {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.served[r]
	if s == nil {
		s = &Served{of: q, resource: r, part: component}
		if r.Resource == "" && r.Subresource != "" {
			s.part = "" // Kubernetes' servers leave it out for paths outside of the API
		}
		q.served[r] = s
		q.shared[Resource{Group: r.Group, Resource: r.Resource}]++
		q.shared[Resource{Group: r.Group, Version: r.Version, Resource: r.Resource}]++
	}
	s.users++
	return s
}

// Release says that a caller of Serve does not serve the resource any more. When the last one has, the
// resource's series go. Requests that are still under way finish without making new ones.
func (s *Served) Release() {
	q, r := s.of, s.resource
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.users--; s.users != 0 {
		return
	}
	delete(q.served, r)
	for _, remove := range s.remove {
		remove()
	}
	s.remove = nil
	if q.leave(Resource{Group: r.Group, Version: r.Version, Resource: r.Resource}) {
		q.events.Remove(r.Group, r.Version, r.Resource)
		q.eventSizes.Remove(r.Group, r.Version, r.Resource)
		for _, scope := range scopeNames {
			q.initialLists.Remove(r.Group, r.Version, r.Resource, scope)
		}
	}
	if q.leave(Resource{Group: r.Group, Resource: r.Resource}) {
		for _, verb := range bodyNames {
			q.bodies.Remove(r.Group, r.Resource, verb)
		}
	}
}

// leave reports whether no resource shares the series of key any more. The caller holds the lock.
func (q *Requests) leave(key Resource) bool {
	q.shared[key]--
	if q.shared[key] > 0 {
		return false
	}
	delete(q.shared, key)
	return true
}

// Observe counts a finished request.
func (s *Served) Observe(c Call, o Outcome) {
	c = c.bounded()
	w := s.row(c)
	if w == nil {
		return
	}
	if n := s.code(w, c, codeIndex(o.Code)); n != nil {
		n.Inc()
	}
	w.duration.Observe(o.Duration.Seconds())
	if w.sli != nil {
		w.sli.Observe((o.Duration - o.Waited).Seconds())
	}
	if w.size != nil {
		w.size.Observe(float64(o.Sent))
	}
	if o.Received > 0 {
		if h := s.body(c); h != nil {
			h.Observe(float64(o.Received))
		}
	}
}

// LongRunning returns the gauge of the open requests of this sort, to which the caller adds 1 now and -1 at
// the end.
func (s *Served) LongRunning(c Call) *metrics.Gauge {
	c = c.bounded()
	c.DryRun = NoDryRun // no label of this family
	if w := s.row(c); w != nil {
		g := resolve(s, &w.running, func() *metrics.Gauge { return track(s, s.of.running, s.labels(c)...) })
		if g != nil {
			return g
		}
	}
	return new(metrics.Gauge)
}

// Terminated counts a request that the server ended to protect itself, with the code of the response. It
// is counted by Observe as well.
func (s *Served) Terminated(c Call, code int) {
	c = c.bounded()
	c.DryRun = NoDryRun
	i := terminationIndex(code)
	if w := s.row(c); w != nil {
		n := resolve(s, &w.terminated[i], func() *metrics.Counter {
			return track(s, s.of.terminations, append(s.labels(c), terminationName(i))...)
		})
		if n != nil {
			n.Inc()
		}
	}
}

// Aborted counts a request whose response broke off. It is counted by Observe as well.
func (s *Served) Aborted(c Call) {
	c = c.bounded()
	c.DryRun = NoDryRun
	if w := s.row(c); w != nil {
		n := resolve(s, &w.aborted, func() *metrics.Counter {
			labels := s.labels(c)
			return track(s, s.of.aborts, labels[:len(labels)-1]...)
		})
		if n != nil {
			n.Inc()
		}
	}
}

// Event counts an event sent to a watcher.
func (s *Served) Event(bytes int) {
	e := resolve(s, &s.events, func() *events {
		r := s.resource
		return &events{s.of.events.With(r.Group, r.Version, r.Resource), s.of.eventSizes.With(r.Group, r.Version, r.Resource)}
	})
	if e != nil {
		e.count.Inc()
		e.size.Observe(float64(bytes))
	}
}

// InitialList counts the objects that a watch began with having been sent, after this time.
func (s *Served) InitialList(c Call, took time.Duration) {
	scope := c.bounded().Scope
	h := resolve(s, &s.lists[scope], func() *metrics.Histogram {
		r := s.resource
		return s.of.initialLists.With(r.Group, r.Version, r.Resource, scopeNames[scope])
	})
	if h != nil {
		h.Observe(took.Seconds())
	}
}

// row returns the row of c, or nil if the resource is gone and has none.
func (s *Served) row(c Call) *row {
	if w := s.table[c.Verb][c.Scope][c.DryRun].Load(); w != nil {
		return w
	}
	return resolve(s, &s.table[c.Verb][c.Scope][c.DryRun], func() *row {
		labels := s.labels(c)
		w := &row{duration: track(s, s.of.durations, append([]string{labels[0], dryRunNames[c.DryRun]}, labels[1:]...)...)}
		if c.DryRun == NoDryRun {
			w.sli = track(s, s.of.sli, labels...)
		}
		if c.Verb == Get || c.Verb == List || c.Verb == Watch {
			w.size = track(s, s.of.sizes, labels...)
		}
		return w
	})
}

func (s *Served) code(w *row, c Call, i int) *metrics.Counter {
	if n := w.codes[i].Load(); n != nil {
		return n
	}
	return resolve(s, &w.codes[i], func() *metrics.Counter {
		labels := s.labels(c)
		labels = append([]string{labels[0], dryRunNames[c.DryRun]}, labels[1:]...)
		return track(s, s.of.total, append(labels, codeName(i))...)
	})
}

// labels returns the values of the labels that most families have.
func (s *Served) labels(c Call) []string {
	r := s.resource
	return []string{verbNames[c.Verb], r.Group, r.Version, r.Resource, r.Subresource, scopeNames[c.Scope], s.part}
}

// track makes a series that goes with s. The caller holds the lock.
func track[M any](s *Served, v *metrics.Vector[M], values ...string) *M {
	s.remove = append(s.remove, func() { v.Remove(values...) })
	return v.With(values...)
}

// resolve returns what slot holds. The first caller makes it, unless the resource is gone: a series made
// now would stay for ever.
func resolve[T any](s *Served, slot *atomic.Pointer[T], create func() *T) *T {
	if have := slot.Load(); have != nil {
		return have
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if slot.Load() == nil && s.users > 0 {
		slot.Store(create())
	}
	return slot.Load()
}

// bodyVerb is the verb of a write as the family of body sizes names it.
type bodyVerb uint8

const (
	bodyCreate bodyVerb = iota
	bodyUpdate
	bodyPatch
	bodyDelete
	bodyDeleteCollection
	bodyVerbs
)

var bodyNames = [bodyVerbs]string{
	bodyCreate: "create", bodyUpdate: "update", bodyPatch: "patch", bodyDelete: "delete", bodyDeleteCollection: "delete_collection",
}

// body returns the histogram of body sizes for c, or nil if c has no body that is counted.
func (s *Served) body(c Call) *metrics.Histogram {
	var v bodyVerb
	switch {
	case s.resource.Resource == "":
		return nil
	case c.Verb == Post:
		v = bodyCreate
	case c.Verb == Put:
		v = bodyUpdate
	case c.Verb == Patch || c.Verb == Apply:
		v = bodyPatch
	case c.Verb == Delete && c.Scope == ResourceScope:
		v = bodyDelete
	case c.Verb == Delete:
		v = bodyDeleteCollection
	default:
		return nil
	}
	return resolve(s, &s.bodies[v], func() *metrics.Histogram {
		return s.of.bodies.With(s.resource.Group, s.resource.Resource, bodyNames[v])
	})
}
