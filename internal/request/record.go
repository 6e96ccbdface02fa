package request

import "github.com/kindwright/kindwright/meta"

// Record is what only handlers know of a request, for the audit log. It belongs to the goroutine
// that serves the request.
type Record struct {
	// Of is the record that this is a part of. The root package knows its type.
	Of any

	// KeepsAnswer asks the handlers for the body of the answer.
	KeepsAnswer bool

	// KeepsRequest says that the record shows what clients sent, so that it may show other parts of
	// objects, too.
	KeepsRequest bool

	// Request and Answer are bodies in JSON, whatever the client sent and got. Nobody may change
	// them.
	Request, Answer []byte

	// Later makes Answer when the record is written. A list may be long, and its client may take its
	// time to read it: nothing is held for the record meanwhile.
	Later func() []byte

	// Status is the answer if it is a Status.
	Status *meta.Status

	// Panicked says that a handler panicked.
	Panicked bool
}

// KeepRequest tells the record about the body of the request, in JSON. There may be no record.
func (r *Record) KeepRequest(body []byte) {
	if r != nil {
		r.Request = body
	}
}

// KeepStatus tells the record that a Status is the answer. There may be no record.
func (r *Record) KeepStatus(s meta.Status) {
	if r != nil {
		r.Status = &s
	}
}

// ShowsBodies reports whether the record of the request shows bodies.
func (x *Exchange) ShowsBodies() bool { return x != nil && x.Record != nil && x.Record.KeepsRequest }
