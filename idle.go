package kindwright

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// FreeMemoryWhenIdle returns memory to the operating system while the server is idle. Between two
// collections Go lets the heap grow to twice what is in use (GOGC) and keeps that space. A server
// with much data and few writes would hold it for nothing.
//
// When the program has allocated hardly anything for a second, and enough since the last release,
// one collection runs and all free memory is returned (debug.FreeOSMemory). Nothing happens under
// load.
//
// The option affects the whole process, so it is for programs that are a server and little else.
func FreeMemoryWhenIdle() RunOption {
	return runOptionFunc(func(c *runConfig) error { c.freeWhenIdle = true; return nil })
}

const (
	idleTick  = time.Second
	idleBytes = 1 << 20 // allocated within a tick: the process is idle
	idleWorth = 4 << 20 // minimum gain, or 1/idleShare of what is in use if that is more
	idleShare = 16
)

// usage is the memory of the process.
type usage struct {
	allocated uint64 // ever
	live      uint64 // found in use by the last collection
	spare     uint64 // beyond that, held from the system
}

// idler returns memory to the operating system.
type idler struct {
	usage func() usage
	free  func()
	last  uint64 // allocated, at the last tick
	freed uint64 // allocated, when memory was last returned
}

func newIdler() *idler {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	return &idler{
		usage: func() usage {
			metrics.Read(samples)
			n := func(i int) uint64 { return samples[i].Value.Uint64() }
			return usage{allocated: n(0), live: n(1), spare: max(n(2), n(1)) - n(1) + n(3)}
		},
		free: debug.FreeOSMemory,
	}
}

// run checks the memory every second until ctx ends.
func (i *idler) run(ctx context.Context) {
	tick := time.NewTicker(idleTick)
	defer tick.Stop()
	i.last = i.usage().allocated
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			i.look()
		}
	}
}

func (i *idler) look() {
	u := i.usage()
	quiet := u.allocated-i.last < idleBytes
	i.last = u.allocated
	worth := max(idleWorth, u.live/idleShare)
	if !quiet || u.spare < worth || u.allocated-i.freed < worth {
		return
	}
	i.free()
	i.freed = i.usage().allocated
}
