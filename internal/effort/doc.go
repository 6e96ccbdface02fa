// Package effort says how much of a long test to run.
//
// The race detector makes a test about ten times slower, and it finds nothing in a loop that one
// goroutine runs. A test that repeats itself thousands of times, or whose input is megabytes long,
// does a tenth of that under the race detector. Without it, it does everything: .ci/run asks for
// both. A test that needs several goroutines to race for long does not belong here.
package effort
