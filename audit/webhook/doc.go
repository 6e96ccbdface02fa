// Package webhook is the audit sink that sends records to another server.
//
//	connection, err := webhook.ReadConnection("/etc/audit-webhook.yaml")
//	sink, err := webhook.New(connection, webhook.Options{})
//
// Records go as an EventList of the API group audit.k8s.io, in batches unless the mode says
// otherwise. A batch that cannot be sent is sent again after a pause, which grows, and lost after
// five attempts. An answer of 4xx is final, except 429. The sink follows no redirect, because the
// records of one server would otherwise reach another.
// Source: AUD-17.
package webhook
