package process

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ErrUnknown means that the operating system does not report a figure.
var ErrUnknown = errors.New("not reported by this operating system")

// Group is a set of processes that work together, such as a server and its store, by their ids.
type Group []int

// ParseGroup parses ids separated by commas. The empty string is an empty group.
func ParseGroup(s string) (Group, error) {
	var g Group
	for field := range strings.SplitSeq(s, ",") {
		if field = strings.TrimSpace(field); field == "" {
			continue
		}
		pid, err := strconv.Atoi(field)
		if err != nil || pid <= 0 {
			return nil, fmt.Errorf("%q is not a process id", field)
		}
		g = append(g, pid)
	}
	return g, nil
}

// CPU returns the processor time that the processes have used, in user and in kernel mode.
func (g Group) CPU() (time.Duration, error) { return sum(g, cpu) }

// Resident returns the resident memory of the processes in bytes.
func (g Group) Resident() (int64, error) { return sum(g, resident) }

// Mapped returns how many of the resident bytes are file-backed, which the operating system can
// reclaim. The error is ErrUnknown if the system does not report it.
func (g Group) Mapped() (int64, error) { return sum(g, mapped) }

// Peak returns the sum of the processes' peak memory in bytes, since ResetPeak or their start. The
// error is ErrUnknown if the system does not report it.
func (g Group) Peak() (int64, error) { return sum(g, peak) }

// ResetPeak restarts the measurement of Peak.
func (g Group) ResetPeak() error {
	for _, pid := range g {
		if err := resetPeak(pid); err != nil {
			return fmt.Errorf("process %d: %w", pid, err)
		}
	}
	return nil
}

func sum[N int64 | time.Duration](g Group, of func(pid int) (N, error)) (N, error) {
	var total N
	for _, pid := range g {
		n, err := of(pid)
		if err != nil {
			return 0, fmt.Errorf("process %d: %w", pid, err)
		}
		total += n
	}
	return total, nil
}

// parseElapsed parses processor time in the format of ps:
// [days-][hours:]minutes:seconds[.hundredths].
func parseElapsed(s string) (time.Duration, error) {
	var total float64
	rest := strings.TrimSpace(s)
	if days, after, ok := strings.Cut(rest, "-"); ok {
		n, err := strconv.Atoi(days)
		if err != nil {
			return 0, fmt.Errorf("processor time %q: %w", s, err)
		}
		total, rest = float64(n)*24*3600, after
	}
	var clock float64
	for part := range strings.SplitSeq(rest, ":") {
		n, err := strconv.ParseFloat(part, 64)
		if err != nil {
			return 0, fmt.Errorf("processor time %q: %w", s, err)
		}
		clock = clock*60 + n
	}
	return time.Duration((total + clock) * float64(time.Second)), nil
}
