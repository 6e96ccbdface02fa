// Package webhook is the audit sink that sends records to another server.
//
//	connection, err := webhook.ReadConnection("/etc/audit-webhook.yaml")
//	sink, err := webhook.New(connection, webhook.Options{})
//
// Records go as an EventList of the API group audit.k8s.io, in batches unless the mode says
// otherwise. Several batches are sent at a time, so one that has to wait holds up no other, and the
// receiver may get them in another order. A batch that cannot be sent, or is answered with anything
// but success, is sent again after a pause, which grows, and lost after five attempts. The sink
// follows no redirect, because the records of one server would otherwise reach another.
// Source: AUD-17.
package webhook
