package storage

import "time"

// Observation describes one finished call on a [Store], for metrics and logs.
type Observation struct {
	Op      string        // as in Error.Op
	Took    time.Duration // wall time; of a watch, how long it ran
	Records int           // records read, operations committed, or changes watched
	Bytes   int           // of their values
	Err     error         // what the caller got: nil or *Error; of a watch nil when the caller broke off
}

// Observer is told of every call on a Store, after it, in the goroutine that
// made it. It must not block and must allow concurrent calls.
type Observer func(Observation)
