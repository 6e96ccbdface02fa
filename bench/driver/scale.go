package driver

import "time"

// Scale sets the amount of work. DefaultScale is for measurements; tests use less.
type Scale struct {
	Operations int           // maximum of a closed loop
	Time       time.Duration // after which a closed loop starts no operation
	Scratch    int           // objects that are read, updated and patched; at least 64

	Objects        int // in the listed collection; a multiple of 100
	ListOperations int // maximum of whole lists

	Watchers   []int   // concurrent watches, one workload each
	Deliveries int     // approximate number of deliveries in a workload
	Pace       float64 // deliveries per second, in workloads with a steady rate

	MemoryObjects []int         // objects to load, one workload each; the other memory workloads use the last number
	IdleWatchers  []int         // silent watches, one workload each
	Live, Stalled int           // watches that read, and that do not
	StalledWrites int           // writes during that time
	ChurnWatchers int           // watches of one object each
	ChurnRate     float64       // updates per second
	ChurnTime     time.Duration // duration
	Settle        time.Duration // time for a server to release memory before it is measured
	Timeout       time.Duration // without progress for this long, missing events count as missed
}

// DefaultScale is the scale for measurements.
func DefaultScale() Scale {
	return Scale{
		Operations: 1 << 30, Time: 3 * time.Second, Scratch: 1024,
		Objects: 10_000, ListOperations: 1 << 30,
		Watchers: []int{1, 100, 1000}, Deliveries: 150_000, Pace: 10_000,
		MemoryObjects: []int{10_000, 50_000}, IdleWatchers: []int{1000, 10_000},
		Live: 900, Stalled: 100, StalledWrites: 200,
		ChurnWatchers: 1000, ChurnRate: 1000, ChurnTime: 10 * time.Second,
		Settle: 5 * time.Second, Timeout: 15 * time.Second,
	}
}
