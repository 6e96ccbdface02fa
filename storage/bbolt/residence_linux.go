package bbolt

import "syscall"

// release takes the pages of a part of the map from the process. The map is shared and backed by
// the file, so no data is lost, even while somebody reads it. After an error the pages stay.
func release(at uintptr, bytes int64) {
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, at, uintptr(bytes), syscall.MADV_DONTNEED)
}
