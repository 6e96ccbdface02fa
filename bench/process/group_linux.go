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

// cpu asks the clock of the process, which counts nanoseconds, and where that is not allowed reads /proc, which counts in
// steps of 10 ms.
func cpu(pid int) (time.Duration, error) {
	// The id of another process's clock, as clock_getcpuclockid makes it: the bits of the pid inverted, and 2 for all that
	// its threads have run, those that ended included.
	clock := uintptr(^pid<<3 | 2)
	var now syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&now)), 0); errno == 0 {
		return time.Duration(now.Nano()), nil
	}
	return accounted(pid)
}

// accounted reads processor time from /proc.
func accounted(pid int) (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field is the command's name, which may hold anything; the last parenthesis ends it.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	const utime, stime = 11, 12 // fields 14 and 15 of all
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

// status returns a figure of /proc/<pid>/status that is given in KiB.
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
