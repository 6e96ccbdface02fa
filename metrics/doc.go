// Package metrics describes what one scrape of a server's metrics returns: families with a name, a
// type and samples, as Prometheus understands them.
//
// A [Source] is something that can be scraped. A server is one; see the root package. Programs read
// a source to hand its families to another system. The module metrics/clientgolang does so for
// Prometheus' client library.
//
// The package does not count anything. The counters behind a source belong to the server, and only
// the server adds to them: a series exists only for something the server serves, so no client can
// make one.
package metrics
