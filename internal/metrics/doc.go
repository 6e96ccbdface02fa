// Package metrics shows what a server counts, and writes it as Prometheus reads it.
//
// A [Registry] belongs to one server. It holds descriptions of families and functions that read
// their values when somebody scrapes. The values themselves stay where they are counted, as fields of
// a type of the standard library or as a [Histogram]. Counting is an atomic addition: it takes no
// lock, looks nothing up and allocates nothing. What exists somewhere already, such as the number of
// objects of a kind, is not counted again.
//
// [Write] writes the text form. [Registry.Families] returns the same as values of the public package
// metrics, for other forms.
//
// Label values must come from what the server serves, never from a request. Package apiserver below
// this one has the families of an API server and keeps that rule.
package metrics
