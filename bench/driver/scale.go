package driver

import "time"

// Scale says how much is done. DefaultScale is for measuring; tests take less.
type Scale struct {
	Operations int           // of a closed loop, at most
	Time       time.Duration // no operation of a closed loop begins later
	Scratch    int           // objects that are got, updated and patched; at least 64

	Objects        int // in the collection that is listed; a multiple of 100
	ListOperations int // whole lists, at most

	Watchers   []int   // watches at once, one workload each
	Deliveries int     // events times watchers in a workload, about
	Pace       float64 // deliveries in a second, in the workloads that pace their writes

	MemoryObjects []int         // objects loaded, one workload each; the last number is used by the other memory workloads
	IdleWatchers  []int         // watches without events, one workload each
	Live, Stalled int           // watches that read, and that do not
	StalledWrites int           // while they do not
	ChurnWatchers int           // watches of one object each
	ChurnRate     float64       // updates in a second
	ChurnTime     time.Duration // how long
	Settle        time.Duration // how long a server may tidy up before its memory is read
	Patience      time.Duration // how long no watcher may get on before what is missing counts as missed
}

// DefaultScale is what figures are measured with.
func DefaultScale() Scale {
	return Scale{
		Operations: 1 << 30, Time: 3 * time.Second, Scratch: 1024,
		Objects: 10_000, ListOperations: 1 << 30,
		Watchers: []int{1, 100, 1000}, Deliveries: 150_000, Pace: 10_000,
		MemoryObjects: []int{10_000, 50_000}, IdleWatchers: []int{1000, 10_000},
		Live: 900, Stalled: 100, StalledWrites: 200,
		ChurnWatchers: 1000, ChurnRate: 1000, ChurnTime: 10 * time.Second,
		Settle: 5 * time.Second, Patience: 15 * time.Second,
	}
}
