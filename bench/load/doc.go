// Package load runs an operation many times, either as fast as a number of workers can or at a
// given rate. It reports latencies and failures, and is independent of HTTP.
//
// It does not decide what to measure (package driver) and does not measure processes (package
// process).
package load
