package audit

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Sink receives the records of a server.
type Sink interface {
	// Write stores one record: an [Event] in JSON, on one line and without a line break at the end.
	// It must not keep or change data after it has returned. It is called by many goroutines.
	//
	// An error means that the record is not stored and that requests must not go on without it. At the
	// stage RequestReceived the client gets a 500 and nothing is done. A request that has been carried
	// out is answered as it ended; its record is given to Write again until it is stored. A sink that
	// prefers answered requests to a complete log counts the loss, tells the log of the program, and
	// returns nil.
	//
	// At the stage RequestReceived ctx ends with the request. Later stages are written even if the
	// client has gone, and ctx has no end: the sink must bound how long it takes.
	// Source: AUD-20.
	Write(ctx context.Context, data []byte) error

	// Close writes what the sink still holds and releases its resources. The program that made the
	// sink closes it, after the server has ended as after the use of a store.
	Close() error
}

// Losses is implemented by sinks that know how many records they could not store. The server
// publishes them as the metric apiserver_audit_error_total.
type Losses interface {
	// Losses returns the name of the sink, such as "log", and its count.
	Losses() (sink string, lost uint64)
}

// Mode says when a sink writes, and what a failure means.
// Source: AUD-20.
type Mode string

// The modes.
const (
	// ModeBatch keeps records in a buffer and writes them later. Requests never wait. Records are
	// lost if the buffer is full, and if the process ends unexpectedly.
	ModeBatch Mode = "batch"

	// ModeBlocking writes a record before the request goes on. If that fails, the record is lost and
	// counted, and the request goes on.
	ModeBlocking Mode = "blocking"

	// ModeBlockingStrict is ModeBlocking, but while records cannot be written no request is carried out.
	ModeBlockingStrict Mode = "blocking-strict"
)

// Validate reports a mode that is unknown. The sink is "log" or "webhook", for the error. The empty
// mode stands for the default of the sink.
func (m Mode) Validate(sink string) error {
	switch m {
	case "", ModeBatch, ModeBlocking, ModeBlockingStrict:
		return nil
	}
	return fmt.Errorf("invalid audit %s mode %s, allowed modes are %q", sink, m, "batch,blocking,blocking-strict")
}

// Batch tunes a sink in ModeBatch. Zero values stand for the defaults of the sink.
type Batch struct {
	BufferSize int           // records that wait at most; what has no room is lost (AUD-23)
	MaxSize    int           // records that are written at once (AUD-24)
	MaxWait    time.Duration // how long a record waits for others (AUD-25)

	// ThrottleEnable bounds how often the sink writes: ThrottleQPS times a second on average, and
	// ThrottleBurst times at once.
	// Source: AUD-26.
	ThrottleEnable bool
	ThrottleQPS    float64
	ThrottleBurst  int
}

// Validate reports negative numbers. The sink is "log" or "webhook", for the error.
func (b Batch) Validate(sink string) error {
	var problems []error
	check := func(wrong bool, what string, value any) {
		if wrong {
			problems = append(problems, fmt.Errorf("invalid audit batch %s %s %v, must be a positive number", sink, what, value))
		}
	}
	check(b.BufferSize < 0, "buffer size", b.BufferSize)
	check(b.MaxSize < 0, "max batch size", b.MaxSize)
	check(b.MaxWait < 0, "max wait", b.MaxWait)
	check(b.ThrottleQPS < 0, "throttle QPS", b.ThrottleQPS)
	check(b.ThrottleBurst < 0, "throttle burst", b.ThrottleBurst)
	return errors.Join(problems...)
}
