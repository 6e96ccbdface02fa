package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// tick is the unit of processor times in /proc, the same on every architecture that Go runs on.
const tick = 10 * time.Millisecond

// cpu reads the clock of the process, which has nanoseconds. If that is not permitted, it reads
// /proc, which has steps of 10 ms.
func cpu(pid int) (time.Duration, error) {
	// The id of another process's clock, as computed by clock_getcpuclockid: the inverted bits of
	// the pid, and 2 for the time of all threads, including those that have ended.
	clock := uintptr(^pid<<3 | 2)
	var now syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&now)), 0); errno == 0 {
		return time.Duration(now.Nano()), nil
	}
	return accounted(pid)
}

// accounted reads the processor time from /proc.
func accounted(pid int) (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field is the command name, which may contain anything, up to the last parenthesis.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	const utime, stime = 11, 12 // fields 14 and 15 in the documentation
	if len(fields) <= stime {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields)+2)
	}
	user, err := strconv.ParseInt(fields[utime], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[stime], 10, 64)
	return time.Duration(user+system) * tick, err
}

func resident(pid int) (int64, error) { return status(pid, "VmRSS:") }

func mapped(pid int) (int64, error) { return status(pid, "RssFile:") }

func peak(pid int) (int64, error) { return status(pid, "VmHWM:") }

// status returns a value in KiB from /proc/<pid>/status.
func status(pid int, name string) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no %s: the process has ended", pid, strings.TrimSuffix(name, ":"))
}

func resetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}
