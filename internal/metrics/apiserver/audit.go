package apiserver

import "github.com/kindwright/kindwright/internal/metrics"

// Audit is what the audit log counts.
type Audit struct {
	Events   uint64            // records given to the sinks
	Rejected uint64            // requests that were rejected because of a sink
	Levels   map[string]uint64 // requests by the level that the policy gave them
	Lost     map[string]uint64 // records that were lost, by sink
}

const (
	auditEvents = iota
	auditErrors
	auditLevels
	auditRejected
)

var auditFamilies = [...]metrics.Desc{
	auditEvents:   counter("apiserver_audit_event_total", "Audit records given to the sinks."),
	auditErrors:   counter("apiserver_audit_error_total", "Audit records that a sink lost.", "plugin"),
	auditLevels:   counter("apiserver_audit_level_total", "Requests by the level of the audit policy.", "level"),
	auditRejected: counter("apiserver_audit_requests_rejected_total", "Requests that were rejected because their audit record could not be stored."),
}

// CollectAudit registers the families of the audit log.
func CollectAudit(r *metrics.Registry, read func() Audit) {
	r.Collect(auditFamilies[:], func(b *metrics.Batch) {
		now := read()
		b.Add(auditEvents, float64(now.Events))
		b.Add(auditRejected, float64(now.Rejected))
		for level, n := range now.Levels {
			b.Add(auditLevels, float64(n), level)
		}
		for sink, n := range now.Lost {
			b.Add(auditErrors, float64(n), sink)
		}
	})
}
