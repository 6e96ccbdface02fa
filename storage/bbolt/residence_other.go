//go:build !linux

package bbolt

// release does nothing: the call has a different meaning on each of the other systems.
func release(uintptr, int64) {}
