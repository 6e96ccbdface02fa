// Package batch is a bounded queue of records that are delivered in batches, one or some at a time.
//
// Nobody waits to add a record: one that has no room is lost, and the owner of the queue is told.
// The package does not know what a record is.
package batch
