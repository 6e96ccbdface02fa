package client

import (
	"io"
	"os"
	"sync"
	"time"
)

// pipeBytes is how much a handler can write ahead of its reader. A connection has such a room as
// well, in the sockets of both ends: without it a watch would be slow whenever its reader thinks.
const pipeBytes = 256 << 10

// pipe carries the body of one answer from the goroutine of a handler to that of a client. There is
// one writer and one reader at a time; ends may be called from anywhere.
type pipe struct {
	readable chan struct{} // capacity 1: there may be more to read, or the pipe has ended
	writable chan struct{} // capacity 1: there may be more room, another deadline, or the pipe has ended

	mu       sync.Mutex // guards everything below
	data     []byte     // written and not read yet: data[read:]
	read     int
	writeEnd error     // what Write returns from now on; nil while it may write
	readEnd  error     // what Read returns once data is used up; nil while there may be more
	broken   bool      // a deadline passed: the rest of the answer is lost, as on a connection
	deadline time.Time // of Write; zero is none
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

// Write blocks while the reader is too far behind. It fails with os.ErrDeadlineExceeded when that
// lasts beyond the deadline, and after that for ever.
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

// put takes what there is room for.
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
		if len(p.data)+n > pipeBytes { // the room is at the front
			p.data = p.data[:copy(p.data, p.data[p.read:])]
			p.read = 0
		}
		p.data = append(p.data, b[:n]...)
		signal(p.readable)
	}
	return n, p.deadline, nil
}

// Read returns what was written, then why there is no more.
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

// setDeadline bounds every Write from now on, one that is under way included. A time that has
// passed already is as good as any; one that was missed cannot be mended by a later one.
func (p *pipe) setDeadline(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deadline = t
	signal(p.writable)
}

// finish ends the body from the handler's side: what was written is still read, then err.
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

// cut ends the body at once, from the client's side: nothing more is written, and every Read
// returns err. What the handler wrote is dropped even when it has finished, lest its end follow a
// part as if that were the whole.
func (p *pipe) cut(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.data, p.read, p.readEnd = nil, 0, err
	p.stopWriting()
	signal(p.readable)
}

// stopWriting may only be called with mu held.
func (p *pipe) stopWriting() {
	if p.writeEnd == nil {
		p.writeEnd = io.ErrClosedPipe
	}
	signal(p.writable)
}
