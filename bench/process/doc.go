// Package process says what processes cost: processor time, resident memory and its peak, of this process or of others
// by their ids, and on what kind of machine.
//
// On Linux the figures come from the processes' clocks and from /proc. Elsewhere ps gives processor time and resident
// memory, and there is no peak.
package process
