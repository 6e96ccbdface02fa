package process

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Machine describes the machine of a measurement.
type Machine struct {
	System    string `json:"system"`
	Kernel    string `json:"kernel,omitempty"`
	Processor string `json:"processor,omitempty"`
	Cores     int    `json:"cores"`
	MemoryMiB int64  `json:"memoryMiB,omitempty"`
	Go        string `json:"go"`
}

// ThisMachine describes this machine as far as the operating system reports it.
func ThisMachine() Machine {
	m := Machine{System: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version()}
	m.Kernel = strings.TrimSpace(text("/proc/sys/kernel/osrelease"))
	m.Processor = field(text("/proc/cpuinfo"), "model name")
	kib, err := strconv.ParseInt(strings.TrimSuffix(field(text("/proc/meminfo"), "MemTotal"), " kB"), 10, 64)
	if err == nil {
		m.MemoryMiB = kib >> 10
	}
	return m
}

// String formats the machine as one line.
func (m Machine) String() string {
	parts := []string{fmt.Sprintf("%d cores", m.Cores)}
	if m.Processor != "" {
		parts = append(parts, m.Processor)
	}
	if m.MemoryMiB > 0 {
		parts = append(parts, fmt.Sprintf("%.0f GiB", float64(m.MemoryMiB)/1024))
	}
	parts = append(parts, m.System)
	if m.Kernel != "" {
		parts = append(parts, "kernel "+m.Kernel)
	}
	return strings.Join(append(parts, m.Go), ", ")
}

// text returns the contents of a file, or "" if it does not exist.
func text(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(data)
}

// field returns the value after a name and a colon.
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if before, after, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(before) == name {
			return strings.TrimSpace(after)
		}
	}
	return ""
}

// Load returns the load average of the last minute, and false if the system does not report it.
func Load() (float64, bool) {
	first, _, _ := strings.Cut(text("/proc/loadavg"), " ")
	n, err := strconv.ParseFloat(first, 64)
	return n, err == nil
}
