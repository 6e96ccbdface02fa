package bbolt

import "syscall"

// release takes the pages of a part of the map from the process. The map is of the file
// and shared, so that nothing is lost, whoever looks at it. An error would mean that
// they stay.
func release(at uintptr, bytes int64) {
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, at, uintptr(bytes), syscall.MADV_DONTNEED)
}
