package metrics

import (
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"time"

	snapshot "github.com/kindwright/kindwright/metrics"
)

// A reading is a family of the Go runtime whose value is a sum of the runtime's own metrics.
type reading struct {
	name, help string
	kind       snapshot.Type
	of         []string
}

// readings have the names that Prometheus' client library gives them, and mean the same.
var readings = [...]reading{
	{"go_goroutines", "Goroutines that exist now.", snapshot.Gauge, []string{"/sched/goroutines:goroutines"}},
	{"go_threads", "Threads of the operating system that the runtime owns.", snapshot.Gauge, []string{"/sched/threads/total:threads"}},
	{"go_sched_gomaxprocs_threads", "Threads that may run Go code at the same time.", snapshot.Gauge, []string{"/sched/gomaxprocs:threads"}},
	{"go_gc_gogc_percent", "Growth of the heap that starts the next collection, in percent.", snapshot.Gauge, []string{"/gc/gogc:percent"}},
	{"go_gc_gomemlimit_bytes", "Memory that the runtime tries not to exceed.", snapshot.Gauge, []string{"/gc/gomemlimit:bytes"}},
	{"go_memstats_alloc_bytes", "Bytes of heap objects in use.", snapshot.Gauge, []string{"/memory/classes/heap/objects:bytes"}},
	{"go_memstats_alloc_bytes_total", "Bytes of all heap objects made so far.", snapshot.Counter, []string{"/gc/heap/allocs:bytes"}},
	{"go_memstats_sys_bytes", "Bytes obtained from the operating system.", snapshot.Gauge, []string{"/memory/classes/total:bytes"}},
	{"go_memstats_mallocs_total", "Heap objects made so far.", snapshot.Counter, []string{"/gc/heap/allocs:objects", "/gc/heap/tiny/allocs:objects"}},
	{"go_memstats_frees_total", "Heap objects freed so far.", snapshot.Counter, []string{"/gc/heap/frees:objects", "/gc/heap/tiny/allocs:objects"}},
	{"go_memstats_heap_alloc_bytes", "Bytes of heap objects in use.", snapshot.Gauge, []string{"/memory/classes/heap/objects:bytes"}},
	{"go_memstats_heap_sys_bytes", "Bytes of heap obtained from the operating system.", snapshot.Gauge, []string{
		"/memory/classes/heap/objects:bytes", "/memory/classes/heap/unused:bytes", "/memory/classes/heap/released:bytes", "/memory/classes/heap/free:bytes",
	}},
	{"go_memstats_heap_idle_bytes", "Bytes of heap that wait to be used.", snapshot.Gauge, []string{"/memory/classes/heap/released:bytes", "/memory/classes/heap/free:bytes"}},
	{"go_memstats_heap_inuse_bytes", "Bytes of heap in use.", snapshot.Gauge, []string{"/memory/classes/heap/objects:bytes", "/memory/classes/heap/unused:bytes"}},
	{"go_memstats_heap_released_bytes", "Bytes of heap returned to the operating system.", snapshot.Gauge, []string{"/memory/classes/heap/released:bytes"}},
	{"go_memstats_heap_objects", "Heap objects that exist now.", snapshot.Gauge, []string{"/gc/heap/objects:objects"}},
	{"go_memstats_stack_inuse_bytes", "Bytes of stacks in use.", snapshot.Gauge, []string{"/memory/classes/heap/stacks:bytes"}},
	{"go_memstats_stack_sys_bytes", "Bytes of stacks obtained from the operating system.", snapshot.Gauge, []string{"/memory/classes/heap/stacks:bytes", "/memory/classes/os-stacks:bytes"}},
	{"go_memstats_mspan_inuse_bytes", "Bytes in use for the runtime's spans.", snapshot.Gauge, []string{"/memory/classes/metadata/mspan/inuse:bytes"}},
	{"go_memstats_mspan_sys_bytes", "Bytes obtained for the runtime's spans.", snapshot.Gauge, []string{"/memory/classes/metadata/mspan/inuse:bytes", "/memory/classes/metadata/mspan/free:bytes"}},
	{"go_memstats_mcache_inuse_bytes", "Bytes in use for the runtime's caches.", snapshot.Gauge, []string{"/memory/classes/metadata/mcache/inuse:bytes"}},
	{"go_memstats_mcache_sys_bytes", "Bytes obtained for the runtime's caches.", snapshot.Gauge, []string{"/memory/classes/metadata/mcache/inuse:bytes", "/memory/classes/metadata/mcache/free:bytes"}},
	{"go_memstats_buck_hash_sys_bytes", "Bytes of the profiler's table.", snapshot.Gauge, []string{"/memory/classes/profiling/buckets:bytes"}},
	{"go_memstats_gc_sys_bytes", "Bytes of the garbage collector's own data.", snapshot.Gauge, []string{"/memory/classes/metadata/other:bytes"}},
	{"go_memstats_other_sys_bytes", "Bytes obtained from the operating system for everything else.", snapshot.Gauge, []string{"/memory/classes/other:bytes"}},
	{"go_memstats_next_gc_bytes", "Size of the heap at which the next collection ends.", snapshot.Gauge, []string{"/gc/heap/goal:bytes"}},
}

// The families of CollectRuntime behind those of readings.
const (
	pauses = len(readings) + iota
	lastPause
	goInfo
)

// runtimeFamilies are the same for every server.
var runtimeFamilies = describeRuntime()

func describeRuntime() []Desc {
	families := make([]Desc, 0, goInfo+1)
	for _, g := range readings {
		families = append(families, Desc{Name: g.name, Help: g.help, Type: g.kind})
	}
	return append(families,
		Desc{Name: "go_gc_duration_seconds", Help: "Pauses of the whole program by garbage collection.", Type: snapshot.Summary},
		Desc{Name: "go_memstats_last_gc_time_seconds", Help: "When the last garbage collection ended, in seconds since 1970.", Type: snapshot.Gauge},
		Desc{Name: "go_info", Help: "The version of Go, as a label.", Type: snapshot.Gauge, Labels: []string{"version"}},
	)
}

// CollectRuntime registers what the Go runtime says about itself.
func CollectRuntime(r *Registry) {
	r.Collect(runtimeFamilies, func(b *Batch) {
		values := readRuntime()
		for i, g := range readings {
			var sum float64
			for _, name := range g.of {
				sum += values[name]
			}
			b.Add(i, sum)
		}
		sample, end := gcPauses()
		b.add(pauses, sample, nil)
		b.Add(lastPause, end)
		b.Add(goInfo, 1, runtime.Version())
	})
}

func readRuntime() map[string]float64 {
	values := map[string]float64{}
	var samples []runtimemetrics.Sample
	for _, g := range readings {
		for _, name := range g.of {
			if _, ok := values[name]; !ok {
				values[name] = 0
				samples = append(samples, runtimemetrics.Sample{Name: name})
			}
		}
	}
	runtimemetrics.Read(samples)
	for _, s := range samples {
		// A later Go may drop one of them. It then reads as zero, rather than as a panic.
		if s.Value.Kind() == runtimemetrics.KindUint64 {
			values[s.Name] = float64(s.Value.Uint64())
		}
	}
	return values
}

// gcPauses reads the pauses from the debug package: the histogram of runtime/metrics has neither their
// exact sum nor their quantiles.
func gcPauses() (s snapshot.Sample, last float64) {
	stats := debug.GCStats{PauseQuantiles: make([]time.Duration, 5)}
	debug.ReadGCStats(&stats)
	for i, q := range stats.PauseQuantiles {
		s.Quantiles = append(s.Quantiles, snapshot.Quantile{Share: float64(i) / 4, Value: q.Seconds()})
	}
	s.Count, s.Sum = uint64(stats.NumGC), stats.PauseTotal.Seconds()
	if !stats.LastGC.IsZero() {
		last = float64(stats.LastGC.UnixNano()) / 1e9
	}
	return s, last
}
