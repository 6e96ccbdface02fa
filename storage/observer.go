package storage

import "time"

// Observation describes one finished call on a [Store], for metrics and logs.
type Observation struct {
	Op      string        // as in Error.Op
	Took    time.Duration // wall time; of a watch, how long it ran
	Records int           // records read, operations committed, or changes watched
	Bytes   int           // of their values
	Err     error         // the caller's error: nil or *Error; nil for a watch that the caller ended
}

// Observer receives every finished call on a Store, in the goroutine that made it. It must not
// block and must be safe for concurrent use.
type Observer func(Observation)
