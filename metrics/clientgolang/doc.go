// Package clientgolang hands the metrics of a server to Prometheus' client library.
//
// A program that has metrics of its own registers a [Collector] beside them, and one scrape returns
// both. A program without any needs none of this: a server writes the text form itself.
//
// The collector reads the server's families during each scrape, so it is an unchecked collector: the
// library learns of the families from the samples. Two servers in one registry need a label that tells
// them apart, see [Labels].
package clientgolang
