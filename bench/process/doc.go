// Package process measures processes: their processor time, resident memory and its peak. It
// measures this process or others by their ids, and describes the machine.
//
// On Linux the figures come from the processes' clocks and from /proc. Elsewhere they come from ps,
// which does not report the peak.
package process
