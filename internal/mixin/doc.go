// Package mixin has tests alone. They look at a server of ours with the eyes of those who watch it: with
// the parser and the linter of Prometheus, and with the recording rules of kubernetes-mixin for API
// servers, which Prometheus' own engine evaluates over recorded scrapes.
package mixin
