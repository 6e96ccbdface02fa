package log

import (
	"errors"
	"sync"
)

// sink is where lines go. Only one goroutine uses it at a time.
type sink interface {
	// append writes whole lines, all or none of them.
	append(lines []byte) error
	close() error
}

// writer shares writes. While one goroutine writes, the others collect their lines; one of them
// writes all of these next.
type writer struct {
	turn  sync.Mutex // held by the goroutine that writes; taken before mu
	to    sink       // guarded by turn
	spare []byte     // guarded by turn: the memory of the lines that were written last

	mu      sync.Mutex
	waiting *group // the lines that wait for the next write
	closed  bool
}

// group is what is written at once.
type group struct {
	lines []byte
	done  bool // guarded by turn
	err   error
}

func newWriter(to sink) *writer { return &writer{to: to, waiting: &group{}} }

var errClosed = errors.New("the audit log is closed")

// maxSpare prevents one long write from keeping its memory.
const maxSpare = 1 << 20

// write returns when the line is written. It adds the line break.
func (w *writer) write(line []byte) error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return errClosed
	}
	g := w.waiting
	g.lines = append(append(g.lines, line...), '\n')
	w.mu.Unlock()

	w.turn.Lock()
	defer w.turn.Unlock()
	if g.done {
		return g.err
	}
	w.mu.Lock()
	w.waiting = &group{lines: w.spare[:0]}
	w.mu.Unlock()
	g.err = w.to.append(g.lines)
	g.done, w.spare = true, g.lines
	if cap(g.lines) > maxSpare {
		w.spare = nil
	}
	g.lines = nil
	return g.err
}

// close closes the sink after the last write.
func (w *writer) close() error {
	w.mu.Lock()
	was := w.closed
	w.closed = true
	w.mu.Unlock()
	w.turn.Lock()
	defer w.turn.Unlock()
	if was {
		return nil
	}
	return w.to.close()
}
