package apiserver

import (
	"net/http"

	"github.com/kindwright/kindwright/internal/metrics"
	snapshot "github.com/kindwright/kindwright/metrics"
)

func gauge(name, help string, labels ...string) metrics.Desc {
	return metrics.Desc{Name: name, Help: help, Type: snapshot.Gauge, Labels: labels}
}

func counter(name, help string, labels ...string) metrics.Desc {
	return metrics.Desc{Name: name, Help: help, Type: snapshot.Counter, Labels: labels}
}

func histogram(name, help string, labels ...string) metrics.Desc {
	return metrics.Desc{Name: name, Help: help, Type: snapshot.Histogram, Labels: labels}
}

// The bounds of histograms. Objectives for API servers are defined on those of the service level.
var (
	durations     = []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60}
	serviceLevels = durations[2:len(durations):len(durations)]
	initialLists  = append(serviceLevels, 90, 120, 180, 300)
	answerSizes   = metrics.Exponential(1000, 10, 7)
	bodySizes     = metrics.Linear(50_000, 100_000, 31)
	eventSizes    = metrics.Exponential(1024, 2, 8)
)

// The families that have samples for each row. What follows from another family is not counted
// again: the service level is the duration of what is no dry run, the terminations are answers with
// certain codes, and the number of events is that of their sizes.
const (
	total = iota
	duration
	serviceLevel
	sent
	received
	running
	terminations
	aborts
	events
	sizesOfEvents
	initial
	perRow
)

var rowFamilies = [perRow]metrics.Desc{
	total: counter("apiserver_request_total", "Finished requests by what they asked for and the code of the response.",
		"verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component", "code"),
	duration: histogram("apiserver_request_duration_seconds", "Time from the arrival of a request to the end of its response.",
		"verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"),
	serviceLevel: histogram("apiserver_request_sli_duration_seconds", "Time of a request that is not a dry run. Nothing makes a request wait that would have to be left out.",
		"verb", "group", "version", "resource", "subresource", "scope", "component"),
	sent: histogram("apiserver_response_sizes", "Size of the responses to reads, in bytes.",
		"verb", "group", "version", "resource", "subresource", "scope", "component"),
	received: histogram("apiserver_request_body_size_bytes", "Size of the bodies of writes.", "group", "resource", "verb"),
	running: gauge("apiserver_longrunning_requests", "Watches and connections that are open.",
		"verb", "group", "version", "resource", "subresource", "scope", "component"),
	terminations: counter("apiserver_request_terminations_total", "Requests that the server ended to protect itself.",
		"verb", "group", "version", "resource", "subresource", "scope", "component", "code"),
	aborts: counter("apiserver_request_aborts_total", "Requests whose response broke off.",
		"verb", "group", "version", "resource", "subresource", "scope"),
	events:        counter("apiserver_watch_events_total", "Events sent to watchers.", "group", "version", "resource"),
	sizesOfEvents: histogram("apiserver_watch_events_sizes", "Size of the events sent to watchers, in bytes.", "group", "version", "resource"),
	initial: histogram("apiserver_watch_list_duration_seconds", "Time until a watch that begins with the objects has sent all of them.",
		"group", "version", "resource", "scope"),
}

// rowSamples add the samples of one row to a batch that has one of rowFamilies.
var rowSamples = [perRow]func(*metrics.Batch, *Served, *Row){
	total: func(b *metrics.Batch, s *Served, row *Row) {
		for t := row.codes.Load(); t != nil; t = t.next {
			l := s.labels(row)
			b.Add(0, float64(t.n.Load()), l[0], dryRunNames[row.call.DryRun], l[1], l[2], l[3], l[4], l[5], l[6], codeName(t.code))
		}
	},
	duration: func(b *metrics.Batch, s *Served, row *Row) {
		l := s.labels(row)
		b.Observed(0, row.duration, durations, l[0], dryRunNames[row.call.DryRun], l[1], l[2], l[3], l[4], l[5], l[6])
	},
	serviceLevel: func(b *metrics.Batch, s *Served, row *Row) {
		if row.call.DryRun == NoDryRun {
			b.Observed(0, row.duration, serviceLevels, s.labels(row)...)
		}
	},
	sent: func(b *metrics.Batch, s *Served, row *Row) {
		if row.sent != nil {
			b.Observed(0, row.sent, answerSizes, s.labels(row)...)
		}
	},
	received: func(b *metrics.Batch, s *Served, row *Row) {
		if row.received != nil {
			b.Observed(0, row.received, bodySizes, s.Group, s.Resource.Resource, row.call.bodyName())
		}
	},
	running: func(b *metrics.Batch, s *Served, row *Row) {
		if row.long.Load() {
			b.Add(0, float64(row.running.Load()), s.labels(row)...)
		}
	},
	terminations: func(b *metrics.Batch, s *Served, row *Row) {
		for t := row.codes.Load(); t != nil; t = t.next {
			switch t.code {
			case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
				b.Add(0, float64(t.n.Load()), append(s.labels(row), codeName(t.code))...)
			}
		}
	},
	aborts: func(b *metrics.Batch, s *Served, row *Row) {
		if n := row.aborted.Load(); n > 0 {
			l := s.labels(row)
			b.Add(0, float64(n), l[:len(l)-1]...)
		}
	},
	events: func(b *metrics.Batch, s *Served, row *Row) {
		if row.events != nil {
			b.Add(0, float64(row.events.Count()), s.Group, s.Version, s.Resource.Resource)
		}
	},
	sizesOfEvents: func(b *metrics.Batch, s *Served, row *Row) {
		if row.events != nil {
			b.Observed(0, row.events, eventSizes, s.Group, s.Version, s.Resource.Resource)
		}
	},
	initial: func(b *metrics.Batch, s *Served, row *Row) {
		if row.initial != nil {
			b.Observed(0, row.initial, initialLists, s.Group, s.Version, s.Resource.Resource, scopeNames[row.call.Scope])
		}
	},
}

// labels returns the values of the labels that most families have.
func (s *Served) labels(row *Row) []string {
	part := component
	if s.Resource.Resource == "" && s.Subresource != "" {
		part = "" // Kubernetes' servers leave it out for paths outside of the API
	}
	return []string{verbNames[row.call.Verb], s.Group, s.Version, s.Resource.Resource, s.Subresource, scopeNames[row.call.Scope], part}
}

// deprecations has a sample for each deprecated resource that somebody uses.
var deprecations = gauge("apiserver_requested_deprecated_apis",
	"Deprecated versions of resources that were requested, with the release that removes them.",
	"group", "version", "resource", "subresource", "removed_release")

// The families that have samples of the server as a whole.
const (
	inflight = iota
	handshakes
)

var totalFamilies = [...]metrics.Desc{
	inflight:   gauge("apiserver_current_inflight_requests", "Requests that are being served, without watches and connections.", "request_kind"),
	handshakes: counter("apiserver_tls_handshake_errors_total", "Connections whose TLS handshake failed."),
}
