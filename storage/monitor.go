package storage

import "time"

// Call describes one finished call on a [Store], for metrics and logs.
type Call struct {
	Op      string        // as in Error.Op
	Took    time.Duration // wall time; of a watch, how long it ran
	Records int           // records read, operations committed, or changes watched
	Bytes   int           // of their values
	Err     error         // the caller's error: nil or *Error; nil for a watch that the caller ended
}

// Monitor receives every finished call on a Store, in the goroutine that made it. It must not
// block and must be safe for concurrent use.
type Monitor func(Call)
