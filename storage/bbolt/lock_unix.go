//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package bbolt

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// lock takes the file exclusively before a byte of it is read. It is the lock that bbolt uses, on
// the same open file, so bbolt has it already.
func lock(f *os.File, wait time.Duration) error {
	for end := time.Now().Add(wait); ; time.Sleep(lockRetry) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
			continue
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return os.NewSyscallError("flock", err)
		case time.Now().After(end):
			return ErrInUse
		}
	}
}

// unlock releases the file even if it stays mapped. The map would keep the lock after closing.
func unlock(f *os.File) error {
	return os.NewSyscallError("flock", syscall.Flock(int(f.Fd()), syscall.LOCK_UN))
}
