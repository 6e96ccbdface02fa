// Package log is the audit sink that writes records to a file, one on each line.
//
//	sink, err := log.Open("/var/log/audit.json", log.Options{MaxSize: 100, MaxBackups: 10})
//
// Goroutines that write at the same time share one write to the file. The file is for its owner
// alone. A line is never torn: what a failed write has left is cut off again, or ended by a line
// break before the next record. A file that grows too large is renamed to a name with the time in
// it and replaced by an empty one; old ones are removed by age and number.
//
// Another program may rotate the file instead. If the file is removed, the next record begins a new
// one; if it is renamed, a record after a tenth of a second does. If there can be no new file, the
// write fails.
//
// The package does not sync files: a record survives the end of the process, and not that of the
// machine.
// Source: AUD-17.
package log
