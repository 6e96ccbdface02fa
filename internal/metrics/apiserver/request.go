package apiserver

import (
	"sync"

	"github.com/kindwright/kindwright/internal/metrics"
)

// component is the value of the label of that name: what of Kubernetes' servers this one stands for.
const component = "apiserver"

// durations are the bounds of request latencies, on which the objectives for API servers are defined.
var durations = []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60}

// Requests has the families about requests.
type Requests struct {
	total        *metrics.Vector[metrics.Counter]
	durations    *metrics.Vector[metrics.Histogram]
	sli          *metrics.Vector[metrics.Histogram]
	sizes        *metrics.Vector[metrics.Histogram]
	bodies       *metrics.Vector[metrics.Histogram]
	running      *metrics.Vector[metrics.Gauge]
	terminations *metrics.Vector[metrics.Counter]
	aborts       *metrics.Vector[metrics.Counter]
	events       *metrics.Vector[metrics.Counter]
	eventSizes   *metrics.Vector[metrics.Histogram]
	initialLists *metrics.Vector[metrics.Histogram]

	reading, writing *metrics.Gauge
	handshakes       *metrics.Counter
	unserved         *Served

	mu     sync.Mutex
	served map[Resource]*Served
	shared map[Resource]int // how many of served have series of their resource, or resource and version, in common
}

// NewRequests registers the families of requests.
func NewRequests(r *metrics.Registry) *Requests {
	dry := []string{"verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"}
	call := []string{"verb", "group", "version", "resource", "subresource", "scope", "component"}
	kind := []string{"group", "version", "resource"}
	q := &Requests{served: map[Resource]*Served{}, shared: map[Resource]int{}}
	q.total = metrics.Counters(r, metrics.Desc{
		Name: "apiserver_request_total", Labels: append(dry[:len(dry):len(dry)], "code"),
		Help: "Finished requests by what they asked for and the code of the response.",
	})
	q.durations = metrics.Histograms(r, metrics.Desc{
		Name: "apiserver_request_duration_seconds", Labels: dry,
		Help: "Time from the arrival of a request to the end of its response.",
	}, durations)
	q.sli = metrics.Histograms(r, metrics.Desc{
		Name: "apiserver_request_sli_duration_seconds", Labels: call,
		Help: "Time of a request without the time it waited for a queue or a webhook. Dry runs are not counted.",
	}, durations[2:])
	q.sizes = metrics.Histograms(r, metrics.Desc{
		Name: "apiserver_response_sizes", Labels: call, Help: "Size of the responses to reads, in bytes.",
	}, metrics.Exponential(1000, 10, 7))
	q.bodies = metrics.Histograms(r, metrics.Desc{
		Name: "apiserver_request_body_size_bytes", Labels: []string{"group", "resource", "verb"}, Help: "Size of the bodies of writes.",
	}, metrics.Linear(50_000, 100_000, 31))
	q.running = metrics.Gauges(r, metrics.Desc{
		Name: "apiserver_longrunning_requests", Labels: call, Help: "Watches and connections that are open.",
	})
	q.terminations = metrics.Counters(r, metrics.Desc{
		Name: "apiserver_request_terminations_total", Labels: append(call[:len(call):len(call)], "code"),
		Help: "Requests that the server ended to protect itself.",
	})
	q.aborts = metrics.Counters(r, metrics.Desc{
		Name: "apiserver_request_aborts_total", Labels: call[:len(call)-1], Help: "Requests whose response broke off.",
	})
	q.events = metrics.Counters(r, metrics.Desc{
		Name: "apiserver_watch_events_total", Labels: kind, Help: "Events sent to watchers.",
	})
	q.eventSizes = metrics.Histograms(r, metrics.Desc{
		Name: "apiserver_watch_events_sizes", Labels: kind, Help: "Size of the events sent to watchers, in bytes.",
	}, metrics.Exponential(1024, 2, 8))
	q.initialLists = metrics.Histograms(r, metrics.Desc{
		Name: "apiserver_watch_list_duration_seconds", Labels: append(kind[:len(kind):len(kind)], "scope"),
		Help: "Time until a watch that begins with the objects has sent all of them.",
	}, append(durations[2:len(durations):len(durations)], 90, 120, 180, 300))

	inflight := metrics.Gauges(r, metrics.Desc{
		Name: "apiserver_current_inflight_requests", Labels: []string{"request_kind"},
		Help: "Requests that are being served, without watches and connections.",
	})
	q.reading, q.writing = inflight.With("readOnly"), inflight.With("mutating")
	q.handshakes = metrics.Counters(r, metrics.Desc{
		Name: "apiserver_tls_handshake_errors_total", Help: "Connections whose TLS handshake failed.",
	}).With()
	q.unserved = q.Serve(Resource{})
	return q
}

// Inflight returns the gauge of the requests that are being served now and change something, or do not.
// Long-running ones are not among them.
func (q *Requests) Inflight(mutating bool) *metrics.Gauge {
	if mutating {
		return q.writing
	}
	return q.reading
}

// HandshakeErrors returns the counter of failed TLS handshakes.
func (q *Requests) HandshakeErrors() *metrics.Counter { return q.handshakes }

// Unserved returns the handle of the requests for nothing that is served. Its labels of the resource are
// empty, whatever the request said.
func (q *Requests) Unserved() *Served { return q.unserved }
