package client

import (
	"io"
	"os"
	"sync"
	"time"
)

// pipeBytes is how far a handler can write ahead of its reader. The sockets of a connection have
// such a buffer too. Without it a watch would stall whenever its reader is busy.
const pipeBytes = 256 << 10

// pipe carries the body of one response from the handler's goroutine to the client's. It has one
// writer and one reader at a time. Any goroutine may end it.
type pipe struct {
	readable chan struct{} // capacity 1: there may be data, or the pipe has ended
	writable chan struct{} // capacity 1: there may be room or a new deadline, or the pipe has ended

	mu       sync.Mutex // guards everything below
	data     []byte     // written but not read: data[read:]
	read     int
	writeEnd error     // the error of every further Write, or nil
	readEnd  error     // the error of Read after the data, or nil
	broken   bool      // a deadline passed: as on a connection, the rest is lost
	deadline time.Time // of Write; zero means none
}

func newPipe() *pipe {
	return &pipe{readable: make(chan struct{}, 1), writable: make(chan struct{}, 1)}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Write blocks while the reader is too far behind. Once that has lasted past the deadline, this and
// every later Write fails with os.ErrDeadlineExceeded.
func (p *pipe) Write(b []byte) (n int, err error) {
	for {
		m, deadline, err := p.put(b[n:])
		n += m
		if err != nil || n == len(b) {
			return n, err
		}
		if deadline.IsZero() {
			<-p.writable
			continue
		}
		timer := time.NewTimer(time.Until(deadline))
		select {
		case <-p.writable:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// put copies as much as fits.
func (p *pipe) put(b []byte) (n int, deadline time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writeEnd != nil {
		return 0, time.Time{}, p.writeEnd
	}
	if !p.deadline.IsZero() && !time.Now().Before(p.deadline) {
		p.writeEnd, p.broken = os.ErrDeadlineExceeded, true
		return 0, time.Time{}, p.writeEnd
	}
	if p.read == len(p.data) {
		p.data, p.read = p.data[:0], 0
	}
	n = min(len(b), pipeBytes-(len(p.data)-p.read))
	if n > 0 {
		if len(p.data)+n > pipeBytes { // move the data to the front
			p.data = p.data[:copy(p.data, p.data[p.read:])]
			p.read = 0
		}
		p.data = append(p.data, b[:n]...)
		signal(p.readable)
	}
	return n, p.deadline, nil
}

// Read returns the written bytes, then the reason for the end.
func (p *pipe) Read(b []byte) (int, error) {
	for {
		p.mu.Lock()
		n := copy(b, p.data[p.read:])
		p.read += n
		end, empty := p.readEnd, p.read == len(p.data)
		p.mu.Unlock()
		switch {
		case n > 0:
			signal(p.writable)
			return n, nil
		case len(b) == 0:
			return 0, nil
		case empty && end != nil:
			return 0, end
		}
		<-p.readable
	}
}

// setDeadline sets the deadline of all Writes from now on, including one in progress. A time in the
// past is allowed. A later deadline does not undo a missed one.
func (p *pipe) setDeadline(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deadline = t
	signal(p.writable)
}

// finish ends the body from the handler's side: the client reads the written bytes, then err.
func (p *pipe) finish(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken {
		err = io.ErrUnexpectedEOF
	}
	if p.readEnd == nil {
		p.readEnd = err
	}
	p.stopWriting()
	signal(p.readable)
}

// cut ends the body at once, from the client's side: every Write fails and every Read returns err.
// It drops what the handler wrote, so that the client never takes a part for the whole.
func (p *pipe) cut(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.data, p.read, p.readEnd = nil, 0, err
	p.stopWriting()
	signal(p.readable)
}

// stopWriting must be called with mu held.
func (p *pipe) stopWriting() {
	if p.writeEnd == nil {
		p.writeEnd = io.ErrClosedPipe
	}
	signal(p.writable)
}
