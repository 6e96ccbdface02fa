package remotestore

import (
	"encoding/gob"
	"errors"
	"fmt"
	"net"

	"github.com/kindwright/kindwright/storage"
)

// hello begins a connection.
type hello struct {
	Name string
}

// op says what a request asks for.
type op string

const (
	opGet      op = "get"
	opList     op = "list"
	opCommit   op = "commit"
	opHistory  op = "history"
	opRevision op = "revision"
	opSync     op = "sync"
	opCompact  op = "compact"
	opLimits   op = "limits"
	opWatch    op = "watch"   // the connection belongs to the watch from now on
	opAdvance  op = "advance" // the watch is to reach At
)

// request is one call. Key is a prefix where the call takes one.
type request struct {
	Op      op
	Key     string
	At      storage.Revision
	List    storage.ListRequest
	History storage.HistoryRequest
	Ops     []storage.Op
}

// answer is the result of a call.
type answer struct {
	Record   storage.Record
	Page     storage.Page
	History  storage.HistoryPage
	Batches  []storage.Batch
	Revision storage.Revision
	Limits   storage.Limits
	Err      *fault
}

// fault is an error on its way.
type fault struct {
	Fact     string // the text of one of the facts below; empty for other errors
	Text     string
	Conflict *storage.ConflictError
}

// facts are the errors that callers compare with.
func facts() []error {
	return []error{
		storage.ErrNotFound, storage.ErrCompacted, storage.ErrFutureRevision, storage.ErrUnknownOutcome, storage.ErrClosed,
		storage.ErrTooLarge, storage.ErrInvalid, storage.ErrNoSpace, storage.ErrUnavailable, storage.ErrUnreadable,
	}
}

func faultOf(err error) *fault {
	if err == nil {
		return nil
	}
	f := &fault{Text: err.Error()}
	if errors.As(err, &f.Conflict) {
		return f
	}
	for _, fact := range facts() {
		if errors.Is(err, fact) {
			f.Fact = fact.Error()
			break
		}
	}
	return f
}

// err returns an error that callers can compare like the original.
func (f *fault) err() error {
	switch {
	case f == nil:
		return nil
	case f.Conflict != nil:
		return f.Conflict
	}
	for _, fact := range facts() {
		if fact.Error() == f.Fact {
			if f.Text == f.Fact {
				return fact
			}
			return fmt.Errorf("%w: %s", fact, f.Text)
		}
	}
	return errors.New(f.Text)
}

// conn sends and receives values.
type conn struct {
	net.Conn
	in  *gob.Decoder
	out *gob.Encoder
}

func newConn(c net.Conn) *conn { return &conn{c, gob.NewDecoder(c), gob.NewEncoder(c)} }

// call sends a request and waits for its answer.
func (c *conn) call(r *request) (a answer, err error) {
	if err := c.out.Encode(r); err != nil {
		return a, err
	}
	err = c.in.Decode(&a)
	return a, err
}
