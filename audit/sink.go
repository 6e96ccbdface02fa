package audit

import "context"

// Sink receives the records of a server.
type Sink interface {
	// Write stores one record: an [Event] in JSON, on one line and without a line break at the end.
	// It must not keep or change data after it has returned. It is called by many goroutines.
	//
	// An error means that the record is lost and that the request must not go on without it. At the
	// stage RequestReceived the client gets a 500 and nothing is done. When a request that changes
	// something has ended, its client gets a 500 instead of the answer. A sink that prefers an
	// answered request to a complete log counts the loss, tells the log of the program, and returns
	// nil (AUD-20).
	//
	// At the stage RequestReceived ctx ends with the request. Later stages are written even if the
	// client has gone, and ctx has no end: the sink must bound how long it takes.
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

// Mode says when a sink writes, and what a failure means (AUD-20).
type Mode string

// The modes.
const (
	// ModeBatch keeps records in a buffer and writes them later. Requests never wait. Records are
	// lost if the buffer is full, and if the process ends unexpectedly.
	ModeBatch Mode = "batch"

	// ModeBlocking writes a record before the request goes on. If that fails, the record is lost and
	// counted, and the request goes on.
	ModeBlocking Mode = "blocking"

	// ModeBlockingStrict is ModeBlocking, but a record that cannot be written fails its request.
	ModeBlockingStrict Mode = "blocking-strict"
)
