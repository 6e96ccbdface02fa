package rest

import (
	"net/http"
	"sync"
	"time"
)

// writeLimit breaks off a stream whose client does not take what it is sent. It is a write deadline that costs little to set and to
// lift: with HTTP/2 each change of the deadline itself is a message to the goroutine of the connection, twice for every event.
// Here that is told nothing unless the time has passed.
//
// begin, pause and close belong to the goroutine of the stream.
type writeLimit struct {
	connection *http.ResponseController
	after      time.Duration
	timer      *time.Timer // nil before the first begin

	mu     sync.Mutex
	closed bool // the connection is no longer the stream's
}

// begin gives the writes that follow their time.
func (p *writeLimit) begin() {
	if p.timer == nil {
		p.timer = time.AfterFunc(p.after, p.end)
		return
	}
	p.timer.Reset(p.after)
}

// pause lifts the limit: what is idle is not late.
func (p *writeLimit) pause() {
	if p.timer != nil {
		p.timer.Stop()
	}
}

// end fails the write under way, and all later ones, by a deadline that has passed.
func (p *writeLimit) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		_ = p.connection.SetWriteDeadline(time.Now().Add(-time.Second)) // it could be set when the stream began
	}
}

// close is called before the handler returns. Afterwards the connection is left alone.
func (p *writeLimit) close() {
	p.pause()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}
