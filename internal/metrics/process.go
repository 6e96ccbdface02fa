package metrics

import (
	"bytes"
	"io/fs"
	"os"
	"strconv"
	"strings"

	snapshot "github.com/kindwright/kindwright/metrics"
)

// The families of CollectProcess, in the order of processFamilies.
const (
	cpuSeconds = iota
	residentBytes
	virtualBytes
	openFiles
	maxFiles
	startTime
)

// processFamilies have the names that Prometheus' client library gives them.
var processFamilies = [...]Desc{
	cpuSeconds:    {Name: "process_cpu_seconds_total", Help: "Processor time that the process has used, in seconds.", Type: snapshot.Counter},
	residentBytes: {Name: "process_resident_memory_bytes", Help: "Memory of the process that is in RAM.", Type: snapshot.Gauge},
	virtualBytes:  {Name: "process_virtual_memory_bytes", Help: "Address space of the process.", Type: snapshot.Gauge},
	openFiles:     {Name: "process_open_fds", Help: "File descriptors that are open.", Type: snapshot.Gauge},
	maxFiles:      {Name: "process_max_fds", Help: "File descriptors that may be open.", Type: snapshot.Gauge},
	startTime:     {Name: "process_start_time_seconds", Help: "When the process began, in seconds since 1970.", Type: snapshot.Gauge},
}

// ticks is how many units of processor time in /proc are a second. Linux reports 100 on every platform
// that Go supports.
const ticks = 100

// CollectProcess registers what proc, usually os.DirFS("/proc"), says about the process. Values
// that cannot be read have no sample; outside of Linux, that is all of them.
func CollectProcess(r *Registry, proc fs.FS) {
	r.Collect(processFamilies[:], func(b *Batch) {
		readStat(b, proc)
		if open, err := fs.ReadDir(proc, "self/fd"); err == nil {
			b.Add(openFiles, float64(len(open)))
		}
		limits, _ := fs.ReadFile(proc, "self/limits")
		if v, ok := field(limits, "Max open files"); ok {
			b.Add(maxFiles, v)
		}
	})
}

// readStat reads the line of numbers in self/stat. The second of them is the program's name in
// parentheses, which may itself hold spaces and parentheses, so counting begins after the last one.
func readStat(b *Batch, proc fs.FS) {
	stat, err := fs.ReadFile(proc, "self/stat")
	if err != nil {
		return
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	number := func(n int) (float64, bool) { // n as in proc(5), where the state is number 3
		if n-3 >= len(fields) {
			return 0, false
		}
		v, err := strconv.ParseFloat(fields[n-3], 64)
		return v, err == nil
	}
	user, ok1 := number(14)
	system, ok2 := number(15)
	if ok1 && ok2 {
		b.Add(cpuSeconds, (user+system)/ticks)
	}
	if v, ok := number(23); ok {
		b.Add(virtualBytes, v)
	}
	if v, ok := number(24); ok {
		b.Add(residentBytes, v*float64(os.Getpagesize()))
	}
	host, _ := fs.ReadFile(proc, "stat")
	boot, ok1 := field(host, "btime")
	started, ok2 := number(22)
	if ok1 && ok2 {
		b.Add(startTime, boot+started/ticks)
	}
}

// field returns the number that follows name at the beginning of a line.
func field(data []byte, name string) (float64, bool) {
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			if fields := strings.Fields(rest); len(fields) > 0 {
				v, err := strconv.ParseFloat(fields[0], 64)
				return v, err == nil // "unlimited" is not a number
			}
		}
	}
	return 0, false
}
