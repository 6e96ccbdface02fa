package bbolt

import (
	"errors"
	"os"
	"syscall"
)

// allocate makes the blocks of a part of a file exist. It changes nothing that the file has.
func allocate(f *os.File, from, to int64) error {
	for {
		err := syscall.Fallocate(int(f.Fd()), 0, from, to-from)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.ENOSYS):
			return zeros(f, from, to)
		default:
			return os.NewSyscallError("fallocate", err)
		}
	}
}
