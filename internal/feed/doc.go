// Package feed tells an index of the objects of a kind as Go structs. Admission plugins that objects
// of the API configure keep such an index, and publish a snapshot of it after each change.
package feed
