// Package leak finds goroutines that a test started and did not stop.
//
// It compares goroutines by their number before and after a test. It is not for production code:
// reading all stacks stops the program for a moment.
package leak
